"""KL probe explosion: the KL that the probe measures is far above its own recent past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.kl_explosion import KLExplosionDetector


@dataclass(kw_only=True, eq=False)
class KLProbeExplosionDetector(KLExplosionDetector):
    """Does for the KL that klarm's probe measures what kl_explosion does for the trainer's.

    The probe measures the same contexts again and again, so its curve has next to no noise; limits
    are its own, and both are watched where the trainer logs a KL, too.

    >>> detector = KLProbeExplosionDetector()
    >>> for step in range(50):
    ...     _ = detector.update(step, {"kl_probe": 0.02 + 0.001 * (step % 3)})
    >>> detector.update(50, {"kl_probe": 0.04}).detector
    'kl_probe_explosion'
    """

    name: ClassVar[str] = "kl_probe_explosion"
    watches: ClassVar[tuple[str, ...]] = ("kl_probe",)
    called: ClassVar[str] = "The probe's KL"
