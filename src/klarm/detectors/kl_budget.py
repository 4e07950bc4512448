"""KL budget: the policy is further from the reference model than any useful policy is."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import Detector
from klarm.settings import setting, settings_of
from klarm.stats import median
from klarm.types import Alert, Severity, Worse

_MEDIAN_OF = 5
# Healthy runs have bursts of three or four spikes, which raise the median of five. An alert is
# therefore decisive only if the last five values or all values are beyond the budget, or half of
# the last ten while the others are not far below it, as they are between spikes.
_HALF_OF = 10
_HALF = 5
_NOT_FAR_SHARE = 0.25
_CRITICAL_FACTOR = 2.0
# A policy starts far from its reference if its first value is within these shares of the budget. A
# policy that is even further away may have exploded before its first value was logged.
_FAR_START = 0.5, 1.25
# A level just above the limit must not look equal to it.
_LEVEL = "{level:!threshold} nats"


@dataclass(kw_only=True, eq=False)
class KLBudgetDetector(Detector):
    """Warns when the median of the last five KLs is above `budget_nats`, or below minus that.

    Also if half of the last ten values are. Critical beyond twice the budget. It needs no baseline
    and judges from the third value. For a policy that starts near the budget, for example after
    fine-tuning, the limit is the budget plus the lowest level so far. The default is for a mean
    over tokens, so the detector is idle if KL is a sum over the sequence, until a budget is set.

    >>> detector = KLBudgetDetector()
    >>> [bool(detector.update(step, {"kl": 1.5})) for step in range(3)]
    [False, False, True]
    """

    name: ClassVar[str] = "kl_budget"
    signal: ClassVar[str] = "kl"
    watches: ClassVar[tuple[str, ...]] = ("kl",)
    has_fixed_limit: ClassVar[bool] = True
    min_values: ClassVar[int] = 2
    limit_per_token: ClassVar[str] = "budget_nats"
    messages: ClassVar[Mapping[str, str]] = {
        "above": f"KL is {_LEVEL} (median of the last {{rows}} rows), above its budget"
        "[ ({severity} above {threshold:g})].",
        "below": f"KL is {_LEVEL} (median of the last {{rows}} rows), below its budget"
        "[ ({severity} below -{threshold:g})].",
        "half above": f"KL was at least {_LEVEL} in {_HALF} of the last {{rows}} rows, above its "
        "budget[ ({severity} above {threshold:g})].",
        "half below": f"KL was at most {_LEVEL} in {_HALF} of the last {{rows}} rows, below its "
        "budget[ ({severity} below -{threshold:g})].",
    }
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Raise the KL penalty or lower the learning rate: the policy is far from its "
            "reference. If the distance is intended, set a larger kl_budget.budget_nats."
        ),
        "critical": (
            "Stop, and go back to a checkpoint from before the rise with a lower learning rate or "
            "a stronger KL penalty: a run rarely returns from so far away."
        ),
    }

    warmup_steps: int = setting(
        0,
        "number of first values to learn from; of these, only NaN and infinity raise an alert",
        at_least=0,
    )
    # A burst of spikes, about which other rules raise alerts as well, soon has five rows in alert.
    confirm_steps: int = setting(
        10,
        "consecutive rows in alert that open an incident, unless one alert is enough; 0: as set "
        "under incidents",
        at_least=0,
    )
    budget_nats: float = setting(
        1.0,
        "warning when the median of 5 KLs exceeds this in size; critical at twice the budget",
        above=0,
    )

    @property
    def limit_nats(self) -> float:
        """The KL above which it warns: the budget, unless the policy started near it."""
        return self._beyond_limit

    def _start(self) -> None:
        self._ten: deque[float] = deque(maxlen=_HALF_OF)
        self._inside = 0  # number of values since the last one beyond the budget
        # The lowest level so far of a policy that started far away; 0 for any other.
        self._start_level = 0.0
        # A budget that the user has set is used as it is.
        default = settings_of(type(self))["budget_nats"].default
        self._start_may_be_far = self.budget_nats == default
        self._beyond_limit = self.budget_nats

    def _observe(self, step: int, value: float) -> Alert | None:
        self._ten.append(value)
        if self._start_may_be_far and (self._seen < _HALF_OF or self._start_level):
            self._learn_start(abs(median(self._ten)))
        self._inside = 0 if abs(value) > self._beyond_limit else self._inside + 1
        if self._inside >= _HALF_OF:  # the usual case: none of the ten is beyond the budget
            self.score = 0.0
            return None
        ten = list(self._ten)
        five = ten[-_MEDIAN_OF:]
        level, half = self._level(ten)
        self.score = abs(level)
        if self.score <= self._beyond_limit:
            return None
        severity: Severity = "critical" if self.score > self._limit("critical") else "warning"
        side = "above" if level > 0 else "below"
        worse: Worse = "higher" if level > 0 else "lower"
        return self._alert(
            severity,
            step,
            value,
            {
                "score": self.score,
                "threshold": self._limit(severity),
                "level": level,
                "rows": float(len(ten if half else five)),
            },
            case=f"half {side}" if half else side,
            decisive=self._is_lasting(five, ten),
            worse=worse,
        )

    def _level(self, ten: Sequence[float]) -> tuple[float, bool]:
        """Return the level of the last values: the median of five, or what half of ten exceed."""
        level = median(ten[-_MEDIAN_OF:])
        if self._inside < _HALF_OF and len(ten) >= _HALF:  # otherwise none is beyond the budget
            ordered = sorted(ten)
            # Half of the ten values are at or above `above`, and half are at or below `below`.
            above, below = ordered[-_HALF], ordered[_HALF - 1]
            if max(above, -below) > abs(level):
                return above if above > -below else below, True
        return level, False

    def _learn_start(self, level: float) -> None:
        """Update the level of a policy that started far from its reference."""
        if self._seen >= _HALF_OF:
            level = min(level, self._start_level)
        elif self._seen and not self._start_level:
            return
        nearest, farthest = (share * self.budget_nats for share in _FAR_START)
        self._start_level = level if nearest <= level <= farthest else 0.0
        self._beyond_limit = self.budget_nats + self._start_level

    def _is_lasting(self, five: Sequence[float], ten: Sequence[float]) -> bool:
        """Return whether the last values beyond the budget are more than a burst of spikes."""
        limit = self._beyond_limit
        beyond = sum(abs(kl) > limit for kl in ten)
        if beyond < _HALF:
            return beyond == len(ten)
        not_far = all(abs(kl) > _NOT_FAR_SHARE * limit for kl in ten)
        return not_far or all(abs(kl) > limit for kl in five)

    def _limit(self, severity: Severity) -> float:
        factor = _CRITICAL_FACTOR if severity == "critical" else 1.0
        return self._start_level + self.budget_nats * factor
