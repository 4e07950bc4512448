"""KL probe explosion: the KL of the probe is far above its own recent past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.kl_explosion import KLExplosionDetector


@dataclass(kw_only=True, eq=False)
class KLProbeExplosionDetector(KLExplosionDetector):
    """Applies kl_explosion to the KL that klarm's probe measures, with settings of its own.

    The probe measures the same contexts every time, so its curve has almost no noise. If the
    trainer logs a KL as well, both are watched.

    >>> detector = KLProbeExplosionDetector()
    >>> for step in range(50):
    ...     _ = detector.update(step, {"kl_probe": 0.02 + 0.001 * (step % 3)})
    >>> detector.update(50, {"kl_probe": 0.04}).detector
    'kl_probe_explosion'
    """

    name: ClassVar[str] = "kl_probe_explosion"
    watches: ClassVar[tuple[str, ...]] = ("kl_probe",)
    label: ClassVar[str] = "The probe's KL"
