"""KL probe budget: the policy is further from its start than any useful policy is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.kl_budget import KLBudgetDetector


@dataclass(kw_only=True, eq=False)
class KLProbeBudgetDetector(KLBudgetDetector):
    """Applies kl_budget to the KL that klarm's probe measures, with settings of its own.

    The probe measures the same contexts every time, so its curve has almost no noise. If the
    trainer logs a KL as well, both are watched.

    >>> detector = KLProbeBudgetDetector()
    >>> [bool(detector.update(step, {"kl_probe": 1.5})) for step in range(3)]
    [False, False, True]
    """

    name: ClassVar[str] = "kl_probe_budget"
    watches: ClassVar[tuple[str, ...]] = ("kl_probe",)
