"""The rules for KL, applied to the KL that klarm's probe measures, with settings of their own.

The probe measures the same contexts every time, so its curve has almost no noise. If the trainer
logs a KL as well, both are watched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.kl_budget import KLBudgetDetector
from klarm.detectors.kl_explosion import KLExplosionDetector
from klarm.detectors.kl_runaway import KLRunawayDetector


@dataclass(kw_only=True, eq=False)
class KLProbeExplosionDetector(KLExplosionDetector):
    """Applies kl_explosion to the probe's KL: it is far above its own recent past."""

    name: ClassVar[str] = "kl_probe_explosion"
    watches: ClassVar[tuple[str, ...]] = ("kl_probe",)


@dataclass(kw_only=True, eq=False)
class KLProbeRunawayDetector(KLRunawayDetector):
    """Applies kl_runaway to the probe's KL: it grows faster than its own history predicts."""

    name: ClassVar[str] = "kl_probe_runaway"
    watches: ClassVar[tuple[str, ...]] = ("kl_probe",)


@dataclass(kw_only=True, eq=False)
class KLProbeBudgetDetector(KLBudgetDetector):
    """Applies kl_budget to the probe's KL: the policy is further from its start than useful.

    >>> detector = KLProbeBudgetDetector()
    >>> [bool(detector.update(step, {"kl_probe": 1.5})) for step in range(3)]
    [False, False, True]
    """

    name: ClassVar[str] = "kl_probe_budget"
    watches: ClassVar[tuple[str, ...]] = ("kl_probe",)
