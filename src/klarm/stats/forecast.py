"""A forecast that a runaway does not teach: level, trend and noise of a series of logarithms."""

from __future__ import annotations

from collections import deque
from copy import copy
from math import inf, sqrt

# Noise that is next to nothing, as of rounded values, would make a surprise of any change.
_LEAST_NOISE = 0.05
# Deviations that all but repeat would leave nothing that is news.
_MAX_SHARED = 0.95


class Forecast:
    """What the next logarithm should be: level and trend, noise, and how much of it is shared.

    Double exponential smoothing whose trend may not fall. It learns from a value when it is
    `later_steps` old, or a `later_part`-th of the series if that is less: the latest values have
    yet to prove normal. Early on a value weighs `early_weight` times its share of the series.

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
        """Look back so many steps; no value counts for more than so many noise units."""
        self._least_weight = 1.0 / memory_steps
        self._early_weight = early_weight
        self._later, self._later_part = later_steps, later_part
        self._max_deviation = max_deviation
        self._latest: deque[float] = deque()
        self.rows = 0  # seen
        self.learnt = 0
        self.level = 0.0  # of the logarithms
        self._slower = 0.0  # the level, smoothed again
        self._trend = 0.0
        self._predicted = 0.0  # of the first value that it has not learnt
        self._scale = self.noise = 0.3
        self._variance = 1.0
        self._covariance = 0.0
        self._last = 0.0
        self.next = -inf  # the next logarithm
        self.shared = 0.0  # how much of a deviation the next value shares
        self.unshared = 1.0  # the part of the noise that it does not share

    def update(self, logarithm: float) -> None:
        """Take in the logarithm of one value."""
        self.rows += 1
        latest = self._latest
        latest.append(logarithm)
        waiting = len(latest)
        if waiting > self._later:  # nearly always: as late as it gets
            self._learn(latest.popleft())
            waiting -= 1
        else:
            self._learn_early()
            waiting = len(latest)
        self.next = self._predicted + self._trend * waiting

    def _learn_early(self) -> None:
        """Learn while the series is short: sooner, so that there is a forecast at all."""
        latest = self._latest
        if not self.learnt:
            self.learnt = 1
            self.level = self._slower = self._predicted = latest.popleft()
        while len(latest) > self.rows // self._later_part:
            self._learn(latest.popleft())

    def _learn(self, logarithm: float) -> None:
        """Take a value into level, trend, noise and correlation.

        Every step comes here, so each attribute is read and written once.
        """
        learnt = self.learnt = self.learnt + 1
        early, least = self._early_weight / (learnt + 2), self._least_weight
        weight = early if early > least else least
        predicted, noise, most = self._predicted, self.noise, self._max_deviation
        deviation = (logarithm - predicted) / noise
        if deviation > most:
            deviation = most
        elif deviation < -most:
            deviation = -most
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
        """Return a copy that will not learn from the values that have yet to prove normal."""
        kept = copy(self)
        kept._latest = deque()
        return kept

    def is_near(self, logarithm: float) -> bool:
        """Tell whether a value is no higher than expected, but for noise."""
        return logarithm <= self._predicted + self._max_deviation * self.noise
