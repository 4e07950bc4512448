"""Rollbacks: which steps and checkpoints of a journal remain valid, given later resume lines."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple


class Limit(NamedTuple):
    """What remains valid at a position of a journal: `step` is the lowest later resume step.

    >>> limit = Limit().with_resume(8).with_resume(5)
    >>> limit.keeps_step(4), limit.keeps_step(5), limit.keeps_checkpoint(5)
    (True, False, True)
    """

    step: float = inf

    def with_resume(self, step: int) -> Limit:
        """Return the limit before a resume line, given the limit after it."""
        return Limit(min(self.step, step))

    def keeps_step(self, step: int) -> bool:
        """Return whether a step is still valid: training logs later ones again."""
        return step < self.step

    def keeps_checkpoint(self, step: int) -> bool:
        """Return whether a checkpoint is still valid: training may resume from that step."""
        return step <= self.step


def limits_between(resumes: Sequence[int], before: float = inf) -> list[Limit]:
    """Return the limits before the first resume line, between any two, and after the last.

    `before` is a step from which training resumes while its resume line is not written yet.

    >>> [limit.step for limit in limits_between([10, 5, 8], before=20)]
    [5, 5, 8, 20]
    """
    limits = [Limit(before)]
    for step in reversed(resumes):
        limits.append(limits[-1].with_resume(step))
    return limits[::-1]
