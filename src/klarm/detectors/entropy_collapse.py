"""Entropy collapse: the policy has become nearly deterministic, or is about to."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from operator import itemgetter
from typing import ClassVar

from msgspec.structs import replace

from klarm.detectors.base import LEVEL_BEFORE, Excused
from klarm.detectors.lazy_score import LazyScoreDetector
from klarm.settings import setting
from klarm.text import number
from klarm.types import Alert, Severity, Worse

# The level is the median of this many values, so that one or two noisy rows have no effect.
_SMOOTHING = 5
# A collapse is a fall, so a policy that began near the floor must also be below this share of its
# highest level.
_COLLAPSED = 0.2
# If entropy is negative, a fall must also be at least this share of its absolute value.
_FALL_OF_SUMS = 1.0
_ROUNDING = 1e-9


@dataclass(kw_only=True, eq=False)
class EntropyCollapseDetector(LazyScoreDetector):
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
    worse: ClassVar[Worse] = "lower"
    excused_when: ClassVar[Excused] = "solved"
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
        # The levels of the last `fall_steps` values and of the one before, with their steps.
        self._levels: deque[tuple[int, float]] = deque(maxlen=self.fall_steps + 1)
        self._highest = -inf  # of the whole run
        self._ceiling = -inf  # an upper bound of these levels
        self._near = inf  # a level between this and the ceiling is certainly no fall
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
        # The score of each rule is 1 at a warning; that of the floor is 2 at critical.
        self._score = None
        if value < 0.0 and not self._is_differential:
            self._is_differential, self._near = True, inf
        if value < self._floor and not self._is_differential:
            self._below += 1
        else:
            self._below = 0
        last = self._last
        last.append(value)
        has_fallen = False
        if len(last) == _SMOOTHING:
            level = sorted(last)[_SMOOTHING // 2]
            self._levels.append((step, level))
            has_fallen = not self._near < level <= self._ceiling and self._learn(level)
        if 2 * self._below >= self.consecutive_steps:
            return self._near_floor(step, value)
        if value <= self.threshold and self.threshold > 0.0:
            message = f"Entropy {number(value)} is below the threshold of {self.threshold:g}."
            return self._alert("warning", step, value, message)
        return self._fallen(step, value) if has_fallen else None

    def _learn(self, level: float) -> bool:
        """Learn from the latest level: has it fallen too far from the recent highest?"""
        if level > self._ceiling:
            self._ceiling = level
            if level > self._highest:
                self._highest = level
                self._floor = min(self.floor_nats, _COLLAPSED * level)
        is_near = self._is_near(level, self._ceiling)
        if not is_near:
            self._ceiling = self._recent_highest()[1]
            is_near = self._is_near(level, self._ceiling)
        self._near = min(level, self._ceiling) if is_near else inf
        return not is_near and self._fall() >= 1.0

    def _is_near(self, level: float, highest: float) -> bool:
        """Return whether a level is so close to the highest that it is no fall."""
        if self._is_differential:
            return highest - level < (1.0 - _ROUNDING) * self.fall_nats
        left = (1.0 - self.fall_fraction) * highest
        # If such a fall ends below the floor, the rule of the floor applies instead.
        return level > (1.0 + _ROUNDING) * left or left <= self.floor_nats

    def _compute_score(self) -> float:
        stay = 2.0 * self._below / self.consecutive_steps
        limit = 2.0 - self._last[-1] / self.threshold if self.threshold > 0.0 else 0.0
        return max(stay, limit, self._fall() if self._levels else 0.0)

    def _fall(self) -> float:
        """Return the fall from the recent highest level; 1 is a warning."""
        (_, recent), (_, level) = self._recent_highest(), self._levels[-1]
        if self._is_differential:
            # A sum over a sequence is far below 0, with noise of many nats.
            return (recent - level) / max(self.fall_nats, _FALL_OF_SUMS * abs(recent))
        if (1.0 - self.fall_fraction) * recent <= self.floor_nats:
            return 0.0
        return (1.0 - level / recent) / self.fall_fraction

    def _recent_highest(self) -> tuple[int, float]:
        """Return the step and value of the highest of these levels, the last if several are."""
        return max(reversed(self._levels), key=itemgetter(1))

    def _near_floor(self, step: int, value: float) -> Alert:
        below, needed = self._below, self.consecutive_steps
        message = (
            f"Entropy is {number(value)} nats and has been below {number(self._floor)} for {below} "
            f"rows (critical after {needed}): the policy is nearly deterministic."
        )
        severity: Severity = "critical" if below >= needed else "warning"
        return self._alert(severity, step, value, message, decisive=True)

    def _fallen(self, step: int, value: float) -> Alert:
        (since, recent), (_, level) = self._recent_highest(), self._levels[-1]
        if self._is_differential:
            message = (
                f"Entropy is {number(level)} nats, {number(recent - level)} below its recent "
                f"high, {number(recent)} at step {since} (medians of {_SMOOTHING} values; warning "
                f"at {self.fall_nats:g})."
            )
        else:
            message = (
                f"Entropy is {number(level)}, {1 - level / recent:.0%} below its recent high, "
                f"{number(recent)} at step {since} (medians of {_SMOOTHING} values; warning at "
                f"{self.fall_fraction:.0%})."
            )
        alert = self._alert("warning", step, value, message)
        return replace(alert, metrics={**alert.metrics, LEVEL_BEFORE: recent})
