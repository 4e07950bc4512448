"""Pace: how often to measure, so that it costs no more than a share of the training."""

from __future__ import annotations


class Pace:
    """Saves up a share of the time that training takes, and says when a measurement is paid for.

    What was saved never exceeds the price of two measurements: a long pause, as for an evaluation,
    buys no series of them.

    >>> pace = Pace(every=1, max_share=0.01)
    >>> pace.is_due(step=1, now=10.0)
    True
    >>> pace.measured(step=1, began=10.0, ended=10.5)
    >>> [pace.is_due(step, now=10.5 + 20.0 * (step - 1)) for step in range(2, 7)]
    [False, False, False, False, True]
    """

    def __init__(self, every: int, max_share: float | None) -> None:
        """Measure every so many steps, and for at most this share of the time; None: whatever."""
        self._every = every
        self._max_share = max_share
        self._saved = 0.0  # seconds
        self._cost = 0.0  # of the last measurement, in seconds
        self._since: float | None = None  # the time up to which training was counted
        self._last: int | None = None  # the step of the last measurement
        self.spent = 0.0  # on measurements, in seconds
        self.trained = 0.0  # between them

    def is_due(self, step: int, now: float) -> bool:
        """Tell whether to measure at a step. For use at every one."""
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
        """Note what a measurement cost. The first one is on credit, and paid back."""
        cost = max(ended - began, 0.0)
        self._saved -= cost
        self._cost, self._last, self._since = cost, step, ended
        self.spent += cost
