"""A forecast of a series of logarithms, made so that it does not learn from a runaway."""

from __future__ import annotations

from collections import deque
from copy import copy
from math import inf, sqrt

# If the noise is almost 0, as with rounded values, any change would look like a surprise.
_MIN_NOISE = 0.05
# If each deviation almost repeats the last one, nothing would be left that is new.
_MAX_SHARED = 0.95


class Forecast:
    """Predicts the next logarithm from level and trend, and estimates noise and autocorrelation.

    This is double exponential smoothing with a trend that is never negative. A value is learnt
    only `later_steps` later, because the latest values may be the beginning of a runaway; in a
    short series, 1/`later_part` of its length later. Early in the series, a value has
    `early_weight` times the weight of an average over all values.

    >>> forecast = Forecast(
    ...     100, early_weight=3, later_steps=20, later_part=12, max_deviation=2.5
    ... )
    >>> for value in [1.0, 1.2] * 50:
    ...     forecast.update(value)
    >>> round(forecast.next, 1), round(forecast.noise, 1)
    (1.1, 0.1)
    """

    __slots__ = (
        "_covariance",
        "_early_weight",
        "_last",
        "_later",
        "_later_part",
        "_latest",
        "_least_weight",
        "_max_deviation",
        "_predicted",
        "_scale",
        "_slower",
        "_trend",
        "_variance",
        "learnt",
        "level",
        "next",
        "noise",
        "rows",
        "shared",
        "unshared",
    )

    def __init__(
        self,
        memory_steps: int,
        *,
        early_weight: float,
        later_steps: int,
        later_part: int,
        max_deviation: float,
    ) -> None:
        """Remember about `memory_steps` steps; clip deviations at `max_deviation` noise units."""
        self._least_weight = 1.0 / memory_steps
        self._early_weight = early_weight
        self._later, self._later_part = later_steps, later_part
        self._max_deviation = max_deviation
        self._latest: deque[float] = deque()
        self.rows = 0  # how many values were seen
        self.learnt = 0  # how many of them were learnt
        self.level = 0.0  # the level of the logarithms
        self._slower = 0.0  # the level, smoothed again
        self._trend = 0.0
        self._predicted = 0.0  # the forecast of the first value that was not learnt yet
        self._scale = self.noise = 0.3
        self._variance = 1.0
        self._covariance = 0.0
        self._last = 0.0
        self.next = -inf  # the forecast of the next logarithm
        self.shared = 0.0  # the part of a deviation that the next value shares: autocorrelation
        self.unshared = 1.0  # the part of the noise that is new in each value

    def update(self, logarithm: float) -> None:
        """Add the logarithm of one value."""
        self.rows += 1
        latest = self._latest
        latest.append(logarithm)
        if len(latest) > self._later:  # nearly always
            self._learn(latest.popleft())
        else:
            self._learn_early()
        self.next = self._predicted + self._trend * len(latest)

    def _learn_early(self) -> None:
        """Learn sooner while the series is short, so that there is a forecast at all."""
        latest = self._latest
        if not self.learnt:
            self.learnt = 1
            self.level = self._slower = self._predicted = latest.popleft()
        while len(latest) > self.rows // self._later_part:
            self._learn(latest.popleft())

    def _learn(self, logarithm: float) -> None:
        """Update level, trend, noise and autocorrelation with a value.

        This runs at every step, so for speed each attribute is read and written only once.
        """
        learnt = self.learnt = self.learnt + 1
        early, min_weight = self._early_weight / (learnt + 2), self._least_weight
        weight = early if early > min_weight else min_weight
        predicted, noise, max_deviation = self._predicted, self.noise, self._max_deviation
        deviation = (logarithm - predicted) / noise
        if deviation > max_deviation:
            deviation = max_deviation
        elif deviation < -max_deviation:
            deviation = -max_deviation
        variance, covariance = self._variance, self._covariance
        variance += weight * (deviation * deviation - variance)
        covariance += weight * (deviation * self._last - covariance)
        self._variance, self._covariance, self._last = variance, covariance, deviation
        # 1.2533 = sqrt(pi / 2) converts the mean absolute deviation of a normal distribution to its
        # standard deviation.
        scale = self._scale
        scale += weight * (1.2533 * abs(deviation) * noise - scale)
        self._scale = scale
        self.noise = scale if scale > _MIN_NOISE else _MIN_NOISE
        level, slower = self.level, self._slower
        level += weight * (predicted + deviation * noise - level)
        slower += weight * (level - slower)
        self.level, self._slower = level, slower
        above = level - slower
        if above > 0.0:
            self._trend = above * weight / (1.0 - weight)
            self._predicted = level + above / (1.0 - weight)
        else:
            self._trend = 0.0
            self._predicted = level
        shared = covariance / variance if covariance > 0.0 else 0.0
        shared = self.shared = shared if shared < _MAX_SHARED else _MAX_SHARED
        self.unshared = sqrt(1.0 - shared * shared)

    def without_latest(self) -> Forecast:
        """Return a copy that does not learn from the latest values, which may not be normal."""
        kept = copy(self)
        kept._latest = deque()
        return kept

    def is_near(self, logarithm: float) -> bool:
        """Return whether a value is no higher than the forecast plus the usual noise."""
        return logarithm <= self._predicted + self._max_deviation * self.noise
