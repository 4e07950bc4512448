"""Pace: how often to measure, so that it takes no more than a share of the training time."""

from __future__ import annotations


class Pace:
    """A time budget: a share of the training time, from which measurements are paid.

    The budget never exceeds the cost of two measurements, so a long pause, such as an evaluation,
    does not cause a series of measurements.

    >>> pace = Pace(every=1, max_share=0.01)
    >>> pace.is_due(step=1, now=10.0)
    True
    >>> pace.measured(step=1, began=10.0, ended=10.5)
    >>> [pace.is_due(step, now=10.5 + 20.0 * (step - 1)) for step in range(2, 7)]
    [False, False, False, False, True]
    """

    def __init__(self, every: int, max_share: float | None) -> None:
        """Measure at most once per `every` steps, and for at most a share of the time."""
        self._every = every
        self._max_share = max_share
        self._saved = 0.0  # seconds
        self._cost = 0.0  # of the last measurement, in seconds
        self._since: float | None = None  # the time up to which training was counted
        self._last: int | None = None  # the step of the last measurement
        self.spent = 0.0  # on measurements, in seconds
        self.trained = 0.0  # between them

    def is_due(self, step: int, now: float) -> bool:
        """Return whether to measure at a step. Call it at every step."""
        if self._since is not None:
            passed = max(now - self._since, 0.0)
            self.trained += passed
            saved = self._saved + (self._max_share or 0.0) * passed
            self._saved = min(saved, 2.0 * self._cost)
            self._since = now
        if self._last is None or step < self._last:  # the first, or training went back
            return True
        is_paid_for = self._max_share is None or self._saved >= self._cost
        return step - self._last >= self._every and is_paid_for

    def measured(self, step: int, began: float, ended: float) -> None:
        """Note the cost of a measurement. The first one is paid back later."""
        cost = max(ended - began, 0.0)
        self._saved -= cost
        self._cost, self._last, self._since = cost, step, ended
        self.spent += cost
