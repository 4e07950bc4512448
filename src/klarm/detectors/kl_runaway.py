"""KL runaway: KL keeps running ahead of what its own growth predicts, suddenly or slowly."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import ClassVar

from klarm.detectors.base import Detector, Excused
from klarm.settings import setting
from klarm.types import Alert, Severity, Worse

# Added to |KL| before its logarithm: below a thousandth of a nat nothing is worth an alarm.
_SMALLEST = 1e-3
# Healthy KL takes off within its first tens of steps; until then it is judged in absolute terms,
# by a floor that falls with the cube of time. This did more against false alarms than any test.
_TAKE_OFF_STEPS = 25.0
# A single step counts for this many noise units at most, so that one spike is not an explosion.
_MAX_A_STEP = 2.5
# What a step leaves over for the next one to differ from; a spike beyond this is no measure.
_MAX_LEFT_OVER = 20.0
_LEAST_NOISE = 0.05
_LARGEST_LOG = 700.0  # beyond this, exp overflows
_MAX_CORRELATED = 0.95
_FIRST_CUSUM_STEP = 10
# The forecast learns from a value only when it is so old: else the first steps of a runaway would
# teach it that this is normal. Early in a run everything is new, and an eighth of the run it is.
_LEARN_LATER_STEPS, _LEARN_LATER_PART = 20, 8
# Early on the forecast forgets faster, so that it follows the take-off: a step then weighs as much
# as a third of the run so far.
_EARLY_WEIGHT = 3.0
_MAX_EARLY_WEIGHT = 0.9
# The slow test compares with the first half of the run: too short a half shows healthy growth.
_FIRST_SLOW_STEP = 400
_FIRST_RECORD_STEP = 40
_RECORDS_A_DOUBLING = 4
_CRITICAL = 1.5
# The slow test also wants the last steps to be that high: the level is slow to fall.
_RECENT_WEIGHT = 0.1
# KL is back where it was before a runaway when so many values in a row are within so many noise
# units of what was expected then.
_BACK_STEPS, _BACK_NOISE = 10, 2.0


@dataclass(kw_only=True, eq=False)
class KLRunawayDetector(Detector):
    """Warns when log KL keeps running ahead of the run's own extrapolated growth.

    Two tests, the worse counts. The quick one is a CUSUM: how far each value is above the
    forecast, beyond what the value before leads one to expect, in noise units, less an allowance,
    summed up. The slow one asks whether the level has risen since half-way through the run by
    `drift_factor` more than it did in the doubling before.
    When KL comes back from a runaway, the forecast is again what it was before: a second one finds
    it neither lifted nor widened by the first.
    The score is 1 at a warning and 1.5 at a critical alert. Both look at many steps, so an alert is
    decisive.

    >>> detector = KLRunawayDetector()
    >>> for step in range(200):
    ...     _ = detector.update(step, {"kl": 0.02 + 0.001 * (step % 3)})
    >>> [detector.update(200 + i, {"kl": 0.02 * 1.5**i}) is not None for i in range(8)]
    [False, False, False, False, False, True, True, True]
    """

    name: ClassVar[str] = "kl_runaway"
    signal: ClassVar[str] = "kl"
    watches: ClassVar[tuple[str, ...]] = ("kl",)
    excused_when: ClassVar[Excused] = "paid_for"
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Compare with the reward: if it rises too and KL levels off, this is learning. If the "
            "reward is flat or jumps, lower the learning rate or raise the KL penalty."
        ),
        "critical": (
            "The policy is leaving its reference. Stop, go back to a checkpoint from before the "
            "rise, and remove the cause: a learning rate too high, a KL penalty too small, or a "
            "reward that can be gamed."
        ),
    }

    warmup_steps: int = setting(10, "the first values, from which it only learns", at_least=0)
    memory_steps: int = setting(200, "how many steps the forecast looks back", at_least=10)
    allowance: float = setting(
        1.0, "noise units above the forecast that a step may be for nothing", above=0
    )
    patience: float = setting(
        6.0, "noise units above the allowance that add up to a warning", above=0
    )
    drift_factor: float = setting(
        1.73, "unexpected rise since half-way through the run that is a warning", above=1
    )

    def _start(self) -> None:
        self._forecast = _Forecast(self.memory_steps)
        self._records = _Records()
        self._before: tuple[_Forecast, _Records] | None = None  # a runaway, as long as one is near
        self._back = 0  # values in a row that are back where it was
        self._since = 0  # values since the last alert
        self._sum = 0.0
        self._drift = log(self.drift_factor)

    def _observe(self, step: int, value: float, metrics: Mapping[str, float]) -> Alert | None:  # noqa: ARG002
        if value == 0.0:  # not measured, or the very first steps: it says nothing of growth
            self.score = min(self.score, self._sum / self.patience)
            return None
        size = abs(value) + _SMALLEST
        logarithm = log(size)
        if self._before is not None:
            self._go_back_or_forget(*self._before, logarithm)
        forecast = self._forecast
        rows = forecast.rows
        ahead = 0.0
        if rows:
            early = _TAKE_OFF_STEPS / (rows + 1)
            floor = _SMALLEST + early * early * early
            ahead = log((size + floor) / (forecast.expected + floor)) / forecast.noise
            total = self._sum + (forecast.surprise(ahead) - self.allowance)
            most = 2.0 * self.patience
            self._sum = 0.0 if total < 0.0 else most if total > most else total
        forecast.update(logarithm)
        rise = self._records.update(forecast.learnt, forecast.level, forecast.recent)
        # At or below the forecast nothing runs ahead of it, whatever has added up.
        quick = self._sum / self.patience if ahead > 0.0 and rows >= _FIRST_CUSUM_STEP else 0.0
        slow = rise / (self._drift + forecast.level_noise()) if rise > 0.0 else 0.0
        score = self.score = slow if slow > quick else quick
        if score <= 1.0:
            return None
        if self._before is None:
            self._before = forecast.without_latest(), copy(self._records)
        self._since = 0
        severity: Severity = "critical" if score > _CRITICAL else "warning"
        # A signed estimate counts by its size: it may run away downwards.
        if quick >= slow:
            sign = "" if value > 0.0 else "±"
            message = (
                f"KL is {value:.4g}, where its trend so far predicts {sign}{forecast.foreseen:.2g}."
            )
        else:
            times = exp(min(rise, _LARGEST_LOG))
            message = (
                f"KL is at {value:.4g}: since half-way through the run "
                f"{'its level' if value > 0.0 else 'its size'} has grown ×{times:.2g} more than in "
                "the doubling before."
            )
        worse: Worse = "higher" if value > 0.0 else "lower"
        return self._alert(severity, step, value, message, decisive=True, worse=worse)

    def _go_back_or_forget(self, forecast: _Forecast, records: _Records, logarithm: float) -> None:
        """Take up what was known before a runaway once KL is back, if that is not long ago."""
        self._since += 1
        self._back = self._back + 1 if forecast.is_near(logarithm) else 0
        if self._back == _BACK_STEPS:
            forecast.rows, forecast.recent = self._forecast.rows, self._forecast.recent
            self._forecast, self._records, self._sum = forecast, records, 0.0
        if self._back == _BACK_STEPS or self._since > self.memory_steps:
            self._before, self._back = None, 0

    def _details(self, value: float, score: float, severity: Severity) -> dict[str, float | str]:
        return {
            "kl": value,
            "score": score,
            "expected": self._forecast.foreseen,
            "threshold": _CRITICAL if severity == "critical" else 1.0,
        }


class _Forecast:
    """What log KL should be next: its level and trend, its noise, and how that hangs together.

    Double exponential smoothing whose trend may not fall and may not outrun growth in proportion
    to time. It knows nothing of the latest values, which have yet to prove normal.
    """

    def __init__(self, memory_steps: int) -> None:
        self._least_weight = 1.0 / memory_steps
        self._latest: deque[float] = deque()
        self.rows = 0  # seen
        self.learnt = 0
        self.level = 0.0  # of the logarithms
        self.recent = 0.0  # that of the last few, of which it has learnt nothing yet
        self._slower = 0.0  # the level, smoothed again
        self._trend = 0.0
        self._predicted = 0.0
        self._scale = 0.3
        self._variance = 1.0
        self._covariance = 0.0
        self._last = 0.0
        self._left_over = 0.0
        self.expected = 0.0  # the next size
        self.foreseen = 0.0  # what was expected of the last value
        self.noise = 0.3
        self._together = 0.0  # how much of a deviation the next value shares
        self._own = 1.0  # the part of the noise that it does not share
        self._weight = 0.0  # of the last value learnt

    def surprise(self, ahead: float) -> float:
        """Return how much of a deviation is news, given the one before, in noise units.

        Deviations that come in runs prove less than ones that come alone.
        """
        if ahead > _MAX_LEFT_OVER:
            ahead = _MAX_LEFT_OVER
        elif ahead < -_MAX_LEFT_OVER:
            ahead = -_MAX_LEFT_OVER
        news = (ahead - self._together * self._left_over) / self._own
        self._left_over = ahead
        if news > _MAX_A_STEP:
            return _MAX_A_STEP
        return news if news >= -_MAX_A_STEP else -_MAX_A_STEP

    def update(self, logarithm: float) -> None:
        """Take in the logarithm of one value."""
        rows = self.rows = self.rows + 1
        foreseen = self.expected - _SMALLEST
        self.foreseen = foreseen if foreseen > 0.0 else 0.0
        latest = self._latest
        latest.append(logarithm)
        if not self.learnt:
            self.learnt = 1
            self.level = self._slower = self._predicted = self.recent = latest.popleft()
        self.recent += _RECENT_WEIGHT * (logarithm - self.recent)
        part = rows // _LEARN_LATER_PART
        later = part if part < _LEARN_LATER_STEPS else _LEARN_LATER_STEPS
        while len(latest) > later:
            self._learn(latest.popleft())
        next_log = self._predicted + self._trend * len(latest)
        self.expected = exp(next_log if next_log < _LARGEST_LOG else _LARGEST_LOG)

    def _learn(self, logarithm: float) -> None:
        """Take a value into level, trend, noise and correlation.

        Every step comes here, so each attribute is read and written once.
        """
        learnt = self.learnt = self.learnt + 1
        weight = _EARLY_WEIGHT / (learnt + 1)
        weight = self._weight = _within(weight, self._least_weight, _MAX_EARLY_WEIGHT)
        predicted, noise = self._predicted, self.noise
        deviation = (logarithm - predicted) / noise
        if deviation > _MAX_A_STEP:
            deviation = _MAX_A_STEP
        elif deviation < -_MAX_A_STEP:
            deviation = -_MAX_A_STEP
        variance, covariance = self._variance, self._covariance
        variance += weight * (deviation * deviation - variance)
        covariance += weight * (deviation * self._last - covariance)
        self._variance, self._covariance, self._last = variance, covariance, deviation
        # 1.2533 turns the mean absolute deviation of a normal into its standard deviation.
        scale = self._scale
        scale += weight * (1.2533 * abs(deviation) * noise - scale)
        self._scale = scale
        self.noise = scale if scale > _LEAST_NOISE else _LEAST_NOISE
        level, slower = self.level, self._slower
        level += weight * (predicted + deviation * noise - level)
        slower += weight * (level - slower)
        self.level, self._slower = level, slower
        trend = _within((level - slower) * weight / (1.0 - weight), 0.0, 1.0 / learnt)
        self._trend = trend
        self._predicted = level + trend / weight
        together = covariance / variance if variance > 0.0 else 0.0
        together = self._together = _within(together, 0.0, _MAX_CORRELATED)
        self._own = sqrt(1.0 - together * together)

    def without_latest(self) -> _Forecast:
        """Return a copy that will not learn from the values that have yet to prove normal."""
        kept = copy(self)
        kept._latest = deque()
        return kept

    def is_near(self, logarithm: float) -> bool:
        """Tell whether a value is no higher than expected, but for noise."""
        return logarithm <= self._predicted + _BACK_NOISE * self.noise

    def level_noise(self) -> float:
        """Return how uncertain the level is: the more so, the more deviations come in runs."""
        return self.noise * (1.0 + self._together) / self._own * sqrt(self._weight / 2.0)


class _Records:
    """The highest level so far, noted four times a doubling of the run."""

    def __init__(self) -> None:
        self._highest = float("-inf")
        self._noted: list[float] = []
        self._next = float(_FIRST_RECORD_STEP)

    def update(self, rows: int, level: float, recent: float) -> float:
        """Take in the level at a row; return how far it is above its record half-way.

        It, or the last few values if those are lower. Less the rise in the doubling before that.
        """
        if rows < _FIRST_RECORD_STEP:
            return 0.0
        self._highest = level if level > self._highest else self._highest
        if rows >= self._next:
            self._noted = [*self._noted[-2 * _RECORDS_A_DOUBLING :], self._highest]
            self._next *= 2.0 ** (1.0 / _RECORDS_A_DOUBLING)
        noted = self._noted
        if rows < _FIRST_SLOW_STEP or len(noted) <= 2 * _RECORDS_A_DOUBLING:
            return 0.0
        half, quarter = noted[-1 - _RECORDS_A_DOUBLING], noted[-1 - 2 * _RECORDS_A_DOUBLING]
        now = level if level < recent else recent
        return now - half - (half - quarter if half > quarter else 0.0)


def _within(value: float, low: float, high: float) -> float:
    return low if value < low else high if value > high else value
