"""Scores by episode, and how sure the numbers are.

An episode begins where an alarm comes up after at least ten quiet rows. A failure is found by an
episode that begins after its onset: one that was already ringing says nothing new. A delay counts
the failing rows seen, the one of the alarm included; a failure not found has an infinite delay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

QUIET_ROWS = 10
_RESAMPLES = 1_000


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


def episode_starts(alarm: Bools) -> NDArray[np.intp]:
    """Return the rows at which an episode begins."""
    rows = np.flatnonzero(alarm)
    gaps = np.diff(rows, prepend=-QUIET_ROWS - 1)
    return rows[gaps > QUIET_ROWS]


def delay(alarm: Bools, onset: int) -> float:
    """Return how many failing rows it took to find the failure; infinite if it was not."""
    starts = episode_starts(alarm)
    found = starts[starts >= onset]
    return float(found[0] - onset + 1) if len(found) else inf


def share(count: int, total: int) -> Estimate:
    """Return a share with Wilson's interval."""
    if not total:
        return Estimate(float("nan"), 0.0, 1.0)
    z, p = 1.96, count / total
    middle = (p + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * sqrt(p * (1 - p) / total + z * z / (4 * total**2))
    return Estimate(p, max(0.0, middle - half), min(1.0, middle + half))


def found_share(delays: Sequence[float]) -> Estimate:
    """Return the share of failures that were found."""
    return share(int(np.isfinite(delays).sum()), len(delays))


def bootstrap(values: Sequence[float], statistic: Callable[..., NDArray[np.float64]]) -> Estimate:
    """Return a statistic of a sample, with an interval from resampling the values."""
    sample = np.asarray(values, dtype=np.float64)
    if not len(sample):
        return Estimate(float("nan"), float("nan"), float("nan"))
    draws = np.random.default_rng(0).integers(0, len(sample), (_RESAMPLES, len(sample)))
    again = np.sort(statistic(sample[draws], axis=1))
    low, high = again[int(0.025 * _RESAMPLES)], again[int(0.975 * _RESAMPLES)]
    return Estimate(float(statistic(sample, axis=0)), float(low), float(high))


def median(values: Sequence[float]) -> Estimate:
    """Return the median with its interval; infinite where most failures were not found."""
    return bootstrap(values, middle)


def middle(values: Floats, axis: int) -> Floats:
    """Return the median, the upper one of two: halves of infinities make no sense."""
    size = values.shape[axis]
    return np.take(np.sort(values, axis=axis), size // 2, axis=axis)


def ninetieth(values: Sequence[float]) -> float:
    """Return the value that 90 % stay at or below."""
    return float(np.sort(values)[int(np.ceil(0.9 * len(values))) - 1])


def mean_by_group(values: Sequence[float], groups: Sequence[str]) -> Estimate:
    """Return the mean of the groups' means, with an interval from resampling the groups."""
    by_group: dict[str, list[float]] = {}
    for value, group in zip(values, groups, strict=True):
        by_group.setdefault(group, []).append(value)
    means = [float(np.mean(part)) for part in by_group.values()]
    if len(set(means)) == 1 and means[0] in (0.0, 1.0):  # no draw differs from another
        return share(int(sum(means)), len(means))
    return bootstrap(means, np.mean)


def threshold_at(healthy_maxima: Sequence[float], rate: float) -> float:
    """Return the score that this share of healthy runs passes."""
    ordered = np.sort(healthy_maxima)
    return float(ordered[max(0, int(np.ceil((1 - rate) * len(ordered))) - 1)])
