"""Reward collapse: reward has fallen far below where it just was, and stays there."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from klarm.detectors.base import Detector
from klarm.settings import setting
from klarm.types import Alert, Severity, Worse

# A fall is looked for once in so many values: it has to last anyhow, and medians cost.
_LOOK_EVERY = 5
# The mean distance from the median of normal noise, times this, is its standard deviation.
_TO_STD = 1.2533
# A scatter below this share of the level is rounding, not noise.
_LEAST_RELATIVE_NOISE = 1e-3
# A smaller fall than this share of the level is none: a saturated reward has a tiny range.
_LEAST_RELATIVE_FALL = 0.05
# Early on no range is known, and means over the first few episodes drift: it must be this one.
_LEAST_EARLY_FALL = 0.2
# The first look, and in a short run how long a fall must last: a part of what there is. Other
# detectors have their look at every 25th or 100th row: so these never fall on the same call of
# `log`.
_FIRST_LOOK, _SHORTEST_FALL, _SHORT_RUN_PART = 13, 5, 3
_MAX_SINCE_BEST = 200
_LARGEST = 1e300  # beyond this, differences overflow


@dataclass(kw_only=True, eq=False)
class RewardCollapseDetector(Detector):
    """Warns when reward has lost `lost_share` of the range it has covered, in one go.

    Compared are the median of the last `collapse_steps` values (in a short run, of fewer) and that
    of the `before_steps` before them. The fall must be more than `noise_units` times the scatter of
    those, too. Critical when nothing is left: reward is at the lowest level it ever had. Also a
    warning: `slow_share` of what was learnt is lost little by little. It has lasted by then, so an
    alert is decisive.

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
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Look at what changed where the fall began: a learning rate, a new stage of the data, "
            "a worker that fails. If nothing was meant to change, go back to the checkpoint before "
            "it."
        ),
        "critical": (
            "What the run had learnt is gone: stop, go back to the checkpoint before the fall and "
            "lower the learning rate. Such a policy rarely recovers in place."
        ),
    }

    warmup_steps: int = setting(
        0, "number of first values that are learned from but never alerted on", at_least=0
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
        self._until_look = _FIRST_LOOK
        self._lowest, self._highest = inf, -inf  # levels
        # The highest level of so many values as a fall must last, the lowest before it, and the
        # levels since.
        self._best, self._lowest_before_best = -inf, inf
        self._since_best: deque[float] = deque(maxlen=_MAX_SINCE_BEST)
        self._severity: Severity | None = None
        self._fall = ""
        self._units = 0.0

    def _observe(self, step: int, value: float) -> Alert | None:
        self._values.append(value)
        self._until_look -= 1
        if self._until_look <= 0:
            self._until_look = _LOOK_EVERY
            self._look()
        self.score = self._units
        if self._severity is None:
            return None
        return self._alert(self._severity, step, value, self._fall, decisive=True)

    def _look(self) -> None:
        """Set how far reward has fallen, and what to say if that is too far."""
        values = list(self._values)
        lasting = self.collapse_steps
        if len(values) < lasting + self.before_steps:
            # A short run has no time for a fall to last as long.
            lasting = min(lasting, max(_SHORTEST_FALL, len(values) // _SHORT_RUN_PART))
            values = values[-lasting - self.before_steps :]
        before = values[:-lasting]
        was, now = _level(before), _level(values[-lasting:])
        early = len(before) < self.before_steps
        if early:  # levels of few values are noise: only the latest count
            self._lowest, self._highest, self._best = inf, -inf, -inf
        self._highest = max(self._highest, was)
        self._lowest = min(self._lowest, was)
        self._units, self._severity = 0.0, None
        fall = was - now
        if fall > (_LEAST_EARLY_FALL if early else _LEAST_RELATIVE_FALL) * abs(was):
            self._judge_sudden(was, now, before, lasting)
        self._judge_slow(was, now, before, lasting)

    def _noise(self, level: float, values: list[float]) -> float:
        """Return the standard deviation of the rewards about their level."""
        scatter = _scatter(values)
        if len(values) < self.before_steps:  # a reward climbs early on, which is no noise
            scatter = min(scatter, _scatter_about_line(values))
        return max(_TO_STD * scatter, _LEAST_RELATIVE_NOISE * abs(level))

    def _judge_sudden(self, was: float, now: float, before: list[float], lasting: int) -> None:
        """Compare with the values just before."""
        fall, covered = was - now, self._highest - min(self._lowest, now)
        if fall <= self.lost_share * covered:
            return
        noise = self._noise(was, before)
        self._units = fall / noise if noise > 0.0 else inf
        if self._units > self.noise_units:
            self._severity = "critical" if now <= self._lowest else "warning"
            left = "where it began or lower" if self._severity == "critical" else "and stays there"
            self._fall = (
                f"Reward fell from {was:.4g} to {now:.4g} (the median of the last "
                f"{lasting}), {self._units:.3g}σ of its noise, {left}."
            )

    def _judge_slow(self, was: float, now: float, before: list[float], lasting: int) -> None:
        """Compare with the best level of the run: little by little, much may have been lost."""
        if self._severity is not None:
            self._best = -inf  # told as a sudden fall: what comes is measured from where it ends
            return
        if now > self._best:
            self._best = now
            self._since_best.clear()
            self._lowest_before_best = min(self._lowest_before_best, self._lowest)
            return
        levels = self._since_best
        levels.append(now)
        best = self._best
        lost, learnt = best - now, best - self._lowest_before_best
        if (
            lost <= self.slow_share * learnt
            or lost <= _LEAST_RELATIVE_FALL * abs(best)
            or len(levels) * _LOOK_EVERY < self.before_steps
            or lost <= self.noise_units * (noise := self._noise(was, before))
        ):
            return
        half = len(levels) // 2
        if min(list(levels)[:half]) + noise < max(list(levels)[half:]):
            return  # to and fro
        self._units = lost / noise if noise > 0.0 else inf
        self._severity = "warning"
        share = lost / learnt if learnt > 0.0 else 1.0
        self._fall = (
            f"Reward has slowly lost {min(share, 1.0):.0%} of what was learnt: its best level was "
            f"{self._best:.4g}, now it is {now:.4g} (the median of the last {lasting})."
        )

    def _details(self, value: float, score: float, severity: Severity) -> dict[str, float | str]:
        return {
            **super()._details(value, score, severity),
            "score": score,
            "threshold": self.noise_units,
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


def _scatter(values: list[float]) -> float:
    """Return the mean distance from the median: what the upper half has more than the lower.

    >>> _scatter([1.0, 2.0, 6.0])
    1.6666666666666667
    """
    ordered = sorted(values)
    count, half = len(ordered), len(ordered) // 2
    scatter = sum(ordered[-half:]) / count - sum(ordered[:half]) / count
    return scatter if scatter == scatter else inf  # noqa: PLR0124  # the sums overflow


def _level(values: list[float]) -> float:
    """Return the lower median, held within what differences can be taken of."""
    level = sorted(values)[(len(values) - 1) // 2]
    return level if -_LARGEST < level < _LARGEST else _LARGEST if level > 0.0 else -_LARGEST
