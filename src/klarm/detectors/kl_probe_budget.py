"""KL probe budget: the policy is further from the start of the run than any useful one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.kl_budget import KLBudgetDetector


@dataclass(kw_only=True, eq=False)
class KLProbeBudgetDetector(KLBudgetDetector):
    """Does for the KL that klarm's probe measures what kl_budget does for the trainer's.

    The probe measures the same contexts again and again, so its curve has next to no noise; limits
    are its own, and both are watched where the trainer logs a KL, too.

    >>> detector = KLProbeBudgetDetector()
    >>> [bool(detector.update(step, {"kl_probe": 1.5})) for step in range(3)]
    [False, False, True]
    """

    name: ClassVar[str] = "kl_probe_budget"
    watches: ClassVar[tuple[str, ...]] = ("kl_probe",)
