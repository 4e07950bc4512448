"""KL probe runaway: the KL that the probe measures keeps running ahead of its own growth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.kl_runaway import KLRunawayDetector


@dataclass(kw_only=True, eq=False)
class KLProbeRunawayDetector(KLRunawayDetector):
    """Does for the KL that klarm's probe measures what kl_runaway does for the trainer's.

    The probe measures the same contexts again and again, so its curve has next to no noise; limits
    are its own, and both are watched where the trainer logs a KL, too.

    >>> detector = KLProbeRunawayDetector()
    >>> for step in range(200):
    ...     _ = detector.update(step, {"kl_probe": 0.02 + 0.001 * (step % 3)})
    >>> [detector.update(200 + i, {"kl_probe": 0.02 * 1.5**i}) is not None for i in range(8)]
    [False, False, False, False, False, True, True, True]
    """

    name: ClassVar[str] = "kl_probe_runaway"
    watches: ClassVar[tuple[str, ...]] = ("kl_probe",)
