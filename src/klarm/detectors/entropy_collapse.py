"""Entropy collapse: the policy has become nearly deterministic, or is about to."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from klarm.detectors.base import LEVEL_BEFORE, Detector, Excused
from klarm.settings import setting
from klarm.types import Alert, Severity, Worse

# The level is the median of this many values, so that one or two noisy rows have no effect.
_SMOOTHING = 5
# A collapse is a fall, so a policy that began near the floor must also be below this share of its
# highest level.
_COLLAPSED = 0.2
_ROUNDING = 1e-9
# If entropy is negative, a fall must also be at least this share of its absolute value.
_FALL_OF_SUMS = 1.0


@dataclass(kw_only=True, eq=False)
class EntropyCollapseDetector(Detector):
    """Critical when entropy stays below `floor_nats` for `consecutive_steps`; a warning at half.

    A fall by `fall_fraction` within `fall_steps`, and a value below `threshold` if one is set, are
    warnings, too. A slow fall raises no alert, because it is typical of learning. Neither does a
    policy that was nearly deterministic before training, because nothing has collapsed.

    The entropy of a continuous policy is differential: it can be negative, and shares of it mean
    nothing. Once a value is below 0, only a fall by `fall_nats` counts.

    >>> detector = EntropyCollapseDetector()
    >>> entropy = [0.6] * 100 + [0.01] * 50
    >>> alerts = [detector.update(step, {"entropy": value}) for step, value in enumerate(entropy)]
    >>> alerts[-1].severity
    'critical'
    """

    name: ClassVar[str] = "entropy_collapse"
    signal: ClassVar[str] = "entropy"
    watches: ClassVar[tuple[str, ...]] = ("entropy",)
    has_fixed_limit: ClassVar[bool] = True
    state_version: ClassVar[int] = 2
    worse: ClassVar[Worse] = "lower"
    excused_when: ClassVar[Excused] = "solved"
    messages: ClassVar[Mapping[str, str]] = {
        "floor": "Entropy is {value} nats and has been below {floor} for {rows} rows"
        " (critical after {needed}): the policy is nearly deterministic.",
        "threshold": "Entropy {value} is below the threshold of {threshold:g}.",
        "fall": "Entropy is {level}, {lost_share:%} below its recent high, {level_before} at step "
        f"{{since:d}} (medians of {_SMOOTHING} values; warning at {{threshold:%}}).",
        "fall in nats": "Entropy is {level} nats, {lost_nats} below its recent high, "
        f"{{level_before}} at step {{since:d}} (medians of {_SMOOTHING} values; warning at "
        "{threshold:g}).",
    }
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Compare some samples of one prompt: do they still differ? If the reward is not rising "
            "either, lower the learning rate or add an entropy bonus."
        ),
        "critical": (
            "Stop, and go back to a checkpoint from before the fall with a lower learning rate, a "
            "higher sampling temperature or a stronger KL penalty: the policy says the same thing "
            "every time and learns nothing from it."
        ),
    }

    floor_nats: float = setting(
        0.05,
        "below this entropy, in nats per token, the policy is nearly deterministic",
        at_least=0,
    )
    consecutive_steps: int = setting(
        50,
        "consecutive values below the floor that are critical; half as many are a warning",
        at_least=2,
    )
    fall_fraction: float = setting(
        0.8, "warning when this share of the entropy is lost within fall_steps; 1: never", above=0
    )
    fall_nats: float = setting(
        10.0, "the same in nats, for continuous policies, whose entropy can be negative", above=0
    )
    fall_steps: int = setting(
        100, "number of values within which such a fall is sudden", at_least=10
    )
    threshold: float = setting(
        0.0, "warning below this entropy; 0: no limit, because levels differ by model", at_least=0
    )

    def _start(self) -> None:
        self._last: deque[float] = deque(maxlen=_SMOOTHING)
        # The levels of the last `fall_steps` values and of the one before, and their steps.
        self._levels: deque[float] = deque(maxlen=self.fall_steps + 1)
        self._steps: deque[int] = deque(maxlen=self.fall_steps + 1)
        self._highest = -inf  # of the whole run
        self._floor = -inf
        self._below = 0  # consecutive values below the floor
        self._is_differential = False

    @property
    def blind_spot(self) -> str:
        """What it cannot watch once entropy has been below 0."""
        if not self._is_differential:
            return ""
        return (
            "entropy was below 0, as that of a continuous policy can be: from then on, "
            f"entropy_collapse only watched for a fall by {self.fall_nats:g} nats or more within "
            f"{self.fall_steps} rows (entropy_collapse.fall_nats), not for a low level"
        )

    def _observe(self, step: int, value: float) -> Alert | None:
        self._is_differential = self._is_differential or value < 0.0
        is_below = value < self._floor and not self._is_differential
        self._below = self._below + 1 if is_below else 0
        self._last.append(value)
        fall = self._fall(step) if len(self._last) == _SMOOTHING else 0.0
        # The score of each rule is 1 at a warning; that of the floor is 2 at critical.
        stay = 2.0 * self._below / self.consecutive_steps
        self.score = max(stay, fall)
        if stay >= 1.0:
            severity: Severity = "critical" if self._below >= self.consecutive_steps else "warning"
            needed = float(self.consecutive_steps)
            facts = {"floor": self._floor, "rows": float(self._below), "needed": needed}
            return self._alert(severity, step, value, facts, case="floor", decisive=True)
        if value <= self.threshold and self.threshold > 0.0:
            self.score = max(self.score, 2.0 - value / self.threshold)
            facts = {"threshold": self.threshold}
            return self._alert("warning", step, value, facts, case="threshold")
        return self._fallen(step, value) if fall >= 1.0 else None

    def _fall(self, step: int) -> float:
        """Return the fall of the level from the recent highest; 1 is a warning."""
        level = sorted(self._last)[_SMOOTHING // 2]
        self._levels.append(level)
        self._steps.append(step)
        if level > self._highest:
            self._highest = level
            self._floor = min(self.floor_nats, _COLLAPSED * level)
        left = (1.0 - self.fall_fraction) * self._highest
        if not self._is_differential and level > (1.0 + _ROUNDING) * left:
            return 0.0  # nearly always: it is near the highest level of the whole run
        recent = max(self._levels)
        if self._is_differential:
            # A sum over a sequence is far below 0, with noise of many nats.
            return (recent - level) / max(self.fall_nats, _FALL_OF_SUMS * abs(recent))
        # If such a fall ends below the floor, the rule of the floor applies instead.
        if (1.0 - self.fall_fraction) * recent <= self.floor_nats:
            return 0.0
        return (1.0 - level / recent) / self.fall_fraction

    def _fallen(self, step: int, value: float) -> Alert:
        recent, level = max(self._levels), self._levels[-1]
        since = max(
            at for at, known in zip(self._steps, self._levels, strict=True) if known == recent
        )
        facts: dict[str, float] = {"level": level, "since": float(since), LEVEL_BEFORE: recent}
        if self._is_differential:
            facts |= {"lost_nats": recent - level, "threshold": self.fall_nats}
            return self._alert("warning", step, value, facts, case="fall in nats")
        facts |= {"lost_share": 1 - level / recent, "threshold": self.fall_fraction}
        return self._alert("warning", step, value, facts, case="fall")
