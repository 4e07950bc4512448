"""KL probe runaway: the KL of the probe grows faster than its own history predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.kl_runaway import KLRunawayDetector


@dataclass(kw_only=True, eq=False)
class KLProbeRunawayDetector(KLRunawayDetector):
    """Applies kl_runaway to the KL that klarm's probe measures, with settings of its own.

    The probe measures the same contexts every time, so its curve has almost no noise. If the
    trainer logs a KL as well, both are watched.

    >>> detector = KLProbeRunawayDetector()
    >>> for step in range(200):
    ...     _ = detector.update(step, {"kl_probe": 0.02 + 0.001 * (step % 3)})
    >>> [detector.update(200 + i, {"kl_probe": 0.02 * 1.5**i}) is not None for i in range(8)]
    [False, False, False, False, False, True, True, True]
    """

    name: ClassVar[str] = "kl_probe_runaway"
    watches: ClassVar[tuple[str, ...]] = ("kl_probe",)
