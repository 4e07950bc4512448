"""The extremes of consecutive groups of values, so that a thinned curve loses no spike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def starts_of(values: Ints) -> Ints:
    """Return where each run of equal values begins.

    >>> starts_of(np.array([3, 3, 4, 4, 3])).tolist()
    [0, 2, 4]
    """
    differ = np.empty(len(values), np.bool_)
    differ[:1] = True
    np.not_equal(values[1:], values[:-1], out=differ[1:])
    return np.flatnonzero(differ)


def first_equal(values: Floats, sought: Floats, starts: Ints, counts: Ints) -> Ints:
    """Return the first index in each group that has the group's sought value."""
    found = np.flatnonzero(values == np.repeat(sought, counts))
    groups = np.searchsorted(starts, found, side="right")
    firsts: Ints = found[starts_of(groups)]
    return firsts


def counts_of(starts: Ints, end: int) -> Ints:
    """Return the sizes of groups, given where each begins and the last one ends."""
    return np.append(starts[1:], end) - starts


def lowest_and_highest(values: Floats, starts: Ints) -> tuple[Ints, Ints]:
    """Return the index of the lowest and of the highest value of each group of finite values."""
    counts = counts_of(starts, len(values))
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    return (
        first_equal(values, low, starts, counts),
        first_equal(values, high, starts, counts),
    )


def in_order(*indices: Ints) -> Ints:
    """Return all indices once, in ascending order."""
    return np.unique(np.concatenate(indices)).astype(np.int64)
