"""Rollbacks: what of a journal still counts, given the resume lines behind it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple


class Limit(NamedTuple):
    """What still counts at a place in a journal: `step` is the lowest of the resumes behind it.

    >>> limit = Limit().with_resume(8).with_resume(5)
    >>> limit.keeps_step(4), limit.keeps_step(5), limit.keeps_checkpoint(5)
    (True, False, True)
    """

    step: float = inf

    def with_resume(self, step: int) -> Limit:
        """Return the limit before a resume line, given the one behind it."""
        return Limit(min(self.step, step))

    def keeps_step(self, step: int) -> bool:
        """Tell whether a step counts: training logs those from the resume on again."""
        return step < self.step

    def keeps_checkpoint(self, step: int) -> bool:
        """Tell whether a checkpoint counts: training may go on from one of the very step."""
        return step <= self.step


def limits_between(resumes: Sequence[int], before: float = inf) -> list[Limit]:
    """Return the limits before the first resume line, between any two, and behind the last.

    `before` is a step at which training goes on without a resume line yet.

    >>> [limit.step for limit in limits_between([10, 5, 8], before=20)]
    [5, 5, 8, 20]
    """
    limits = [Limit(before)]
    for step in reversed(resumes):
        limits.append(limits[-1].with_resume(step))
    return limits[::-1]
