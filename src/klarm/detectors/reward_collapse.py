"""Reward collapse: reward has fallen far below its recent level, and stays there."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from klarm.detectors.base import LEVEL_BEFORE, Detector
from klarm.settings import setting
from klarm.types import Alert, Severity, Worse

# It looks for a fall at every fifth value only, because a fall must last and medians take time.
_CHECK_EVERY = 5
# Converts the mean absolute deviation of normal noise to its standard deviation.
_TO_STD = 1.2533
# A scatter below this share of the level is rounding, not noise.
_MIN_RELATIVE_NOISE = 1e-3
# A fall must be at least this share of the level, because a saturated reward has a tiny range.
_MIN_RELATIVE_FALL = 0.05
# Early in a run it must be this share: the range is unknown, and means over few episodes drift.
_MIN_EARLY_FALL = 0.2
# The value of the first check. Other detectors check at every 25th or 100th row, so that two checks
# never fall on the same call of `log`.
_FIRST_CHECK = 13
# In a short run, a fall must last for a third of the run, but at least for five values.
_MIN_FALL_STEPS, _SHORT_RUN_PART = 5, 3
_MAX_SINCE_BEST = 200
_MAX_SIZE = 1e300  # differences of larger values overflow
_NOW = "the median of the last {rows} rows"


@dataclass(kw_only=True, eq=False)
class RewardCollapseDetector(Detector):
    """Warns when reward has suddenly lost `lost_share` of its range so far.

    It compares the median of the last `collapse_steps` values (fewer in a short run) with that of
    the `before_steps` values before them. The fall must also exceed `noise_units` times their
    scatter. Critical if it was never as low over `before_steps` values. A gradual loss of
    `slow_share` of what was learnt is a warning, too. One alert opens an incident, because a fall
    has lasted by then.

    >>> detector = RewardCollapseDetector()
    >>> rewards = [min(0.02 * step, 1.0) + 0.02 * (step % 2) for step in range(100)] + [0.2] * 50
    >>> alerts = [detector.update(step, {"reward": reward}) for step, reward in enumerate(rewards)]
    >>> next(alert for alert in alerts if alert).step
    112
    """

    name: ClassVar[str] = "reward_collapse"
    signal: ClassVar[str] = "reward"
    watches: ClassVar[tuple[str, ...]] = ("reward",)
    worse: ClassVar[Worse] = "lower"
    messages: ClassVar[Mapping[str, str]] = {
        "sudden": "Reward fell from {level_before:4} to {level:4} "
        f"({_NOW}[; no {{rows_before}} rows before had a lower one]).",
        "slow": "Reward has slowly lost {lost_share:%} of what was learnt: it had risen from "
        "{lowest:4} to {level_before:4}, and is now at {level:4} "
        f"({_NOW}).",
        "slow, below start": "Reward has slowly fallen from its best level, {level_before:4}, to "
        f"{{level:4}} ({_NOW}). It is below its lowest level before that, {{lowest:4}}.",
    }
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Check what changed where the fall began: the learning rate, a new stage of the data, "
            "a failing worker. If nothing was meant to change, go back to the last checkpoint "
            "before the fall."
        ),
        "critical": (
            "Stop, go back to the last checkpoint before the fall, and lower the learning rate: "
            "a policy whose reward has fallen this low rarely recovers in place."
        ),
    }

    warmup_steps: int = setting(
        0,
        "number of first values to learn from; of these, only NaN and infinity raise an alert",
        at_least=0,
    )
    collapse_steps: int = setting(20, "number of values that a fall must last", at_least=5)
    before_steps: int = setting(50, "number of values before the fall to compare with", at_least=10)
    lost_share: float = setting(0.4, "share of the range covered so far that must be lost", above=0)
    slow_share: float = setting(
        0.6, "share of the learned reward that must be lost gradually since the best level", above=0
    )
    noise_units: float = setting(4.0, "minimum fall, in standard deviations of the noise", above=0)

    def _start(self) -> None:
        self._values: deque[float] = deque(maxlen=self.collapse_steps + self.before_steps)
        self._until_check = _FIRST_CHECK
        self._lowest, self._highest = inf, -inf  # levels
        # The highest level over `collapse_steps` values, the lowest level before it, and the levels
        # since.
        self._best, self._lowest_before_best = -inf, inf
        self._best_median = -inf  # the same level as messages give it
        self._since_best: deque[float] = deque(maxlen=_MAX_SINCE_BEST)
        # What the last check has found.
        self._units = 0.0
        self._severity: Severity | None = None
        self._case = ""
        self._facts: dict[str, float | str] = {}

    def _observe(self, step: int, value: float) -> Alert | None:
        self._values.append(value)
        self._until_check -= 1
        if self._until_check <= 0:
            self._until_check = _CHECK_EVERY
            self._check()
        self.score = self._units
        if self._severity is None:
            return None
        facts = {"score": self._units, "threshold": self.noise_units, **self._facts}
        return self._alert(self._severity, step, value, facts, case=self._case, decisive=True)

    def _check(self) -> None:
        """Set how far reward has fallen, and the facts if that is too far."""
        values = list(self._values)
        lasting = self.collapse_steps
        if len(values) < lasting + self.before_steps:
            # In a short run, a fall cannot last as long.
            lasting = min(lasting, max(_MIN_FALL_STEPS, len(values) // _SHORT_RUN_PART))
            values = values[-lasting - self.before_steps :]
        before = values[:-lasting]
        ordered = sorted(before)  # once, because this takes most of the time of a check
        latest = sorted(values[-lasting:])
        was, now = _level(ordered), _level(latest)
        early = len(before) < self.before_steps
        if early:  # levels of few values are noise, so only the latest count
            self._lowest, self._highest, self._best = inf, -inf, -inf
        self._highest = max(self._highest, was)
        self._lowest = min(self._lowest, was)
        self._units, self._severity = 0.0, None
        fall = was - now
        if fall > (_MIN_EARLY_FALL if early else _MIN_RELATIVE_FALL) * abs(was):
            self._judge_sudden(was, now, before, ordered, latest)
        self._judge_slow(was, now, before, ordered, latest)

    def _noise(self, level: float, values: list[float], ordered: list[float]) -> float:
        """Return the standard deviation of the rewards around their level."""
        scatter = _scatter(ordered)
        if len(values) < self.before_steps:  # reward climbs early in a run, which is not noise
            scatter = min(scatter, _scatter_about_line(values))
        return max(_TO_STD * scatter, _MIN_RELATIVE_NOISE * abs(level))

    def _judge_sudden(
        self, was: float, now: float, before: list[float], ordered: list[float], latest: list[float]
    ) -> None:
        """Compare with the values just before the fall."""
        fall, covered = was - now, self._highest - min(self._lowest, now)
        if fall <= self.lost_share * covered:
            return
        noise = self._noise(was, before, ordered)
        self._units = fall / noise if noise > 0.0 else inf
        if self._units <= self.noise_units:
            return
        self._severity, self._case = "critical" if now <= self._lowest else "warning", "sudden"
        level_before, level = _median(ordered), _median(latest)
        self._facts = {LEVEL_BEFORE: level_before, "level": level, "rows": float(len(latest))}
        if self._severity == "critical":
            self._facts["rows_before"] = float(len(before))

    def _judge_slow(
        self, was: float, now: float, before: list[float], ordered: list[float], latest: list[float]
    ) -> None:
        """Compare with the best level of the run, to find a gradual loss."""
        if self._severity is not None:
            self._best = -inf  # reported as a sudden fall: start again from its end
            return
        if now > self._best:
            self._best, self._best_median = now, _median(latest)
            self._since_best.clear()
            self._lowest_before_best = min(self._lowest_before_best, self._lowest)
            return
        levels = self._since_best
        levels.append(now)
        best = self._best
        lost, learnt = best - now, best - self._lowest_before_best
        if (
            lost <= self.slow_share * learnt  # nearly always
            or lost <= _MIN_RELATIVE_FALL * abs(best)
            or len(levels) * _CHECK_EVERY < self.before_steps
            or lost <= self.noise_units * (noise := self._noise(was, before, ordered))
        ):
            return
        half = len(levels) // 2
        if min(list(levels)[:half]) + noise < max(list(levels)[half:]):
            return  # it goes up and down
        self._units = lost / noise if noise > 0.0 else inf
        self._severity = "warning"
        self._case = "slow" if lost < learnt else "slow, below start"
        best_level, level, lowest = self._best_median, _median(latest), self._lowest_before_best
        self._facts = {
            LEVEL_BEFORE: best_level,
            "level": level,
            "lowest": lowest,
            "lost_share": (best_level - level) / (best_level - lowest) if lost < learnt else 1.0,
            "rows": float(len(latest)),
        }


def _scatter_about_line(values: list[float]) -> float:
    """Return the mean distance from the line through the means of the two halves.

    >>> _scatter_about_line([0.0, 1.0, 2.0, 3.0])
    0.0
    """
    count, half = len(values), len(values) // 2
    first, last = sum(values[:half]) / half, sum(values[-half:]) / half
    slope = (last - first) / (count - half)
    middle = (count - 1) / 2
    centre = (first + last) / 2
    return sum(abs(v - centre - slope * (i - middle)) for i, v in enumerate(values)) / count


def _scatter(ordered: list[float]) -> float:
    """Return the mean absolute deviation: the mean of the upper half minus that of the lower.

    >>> _scatter([1.0, 2.0, 6.0])
    1.6666666666666667
    """
    count, half = len(ordered), len(ordered) // 2
    scatter = sum(ordered[-half:]) / count - sum(ordered[:half]) / count
    return scatter if scatter == scatter else inf  # noqa: PLR0124  # the sums overflow


def _median(ordered: list[float]) -> float:
    """Return the median of sorted values, which people read; halves do not overflow when added."""
    last = len(ordered) - 1
    return ordered[last // 2] / 2 + ordered[last - last // 2] / 2


def _level(ordered: list[float]) -> float:
    """Return the lower median, which is judged, clamped so that differences do not overflow."""
    level = ordered[(len(ordered) - 1) // 2]
    return level if -_MAX_SIZE < level < _MAX_SIZE else _MAX_SIZE if level > 0.0 else -_MAX_SIZE
