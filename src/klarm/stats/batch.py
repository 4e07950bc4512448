"""Statistics of a whole series at once, with numpy.

`sliding_moments` computes the same as `klarm.stats.SlidingMoments`: it adds the same numbers in the
same order, so the two agree to the last bit. If you change one, change the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# How many values are processed at a time: they fit into the cache of a processor.
_CHUNK = 32_768


def sliding_moments(values: Floats, size: int) -> tuple[Floats, Floats]:
    """Return the mean and the variance of the `size` values before each value.

    No value comes before the first one, so its mean and variance are 0.
    """
    count = len(values)
    if count == 0:
        return np.zeros(0), np.zeros(0)
    size = min(size, count)  # no window is longer than the series
    blocks = np.append(values, np.zeros(-count % size)).reshape(-1, size)
    mean, variance = np.zeros_like(blocks), np.zeros_like(blocks)
    with np.errstate(over="ignore", invalid="ignore"):
        mean[0, 1:], variance[0, 1:] = _grow(blocks[0])
        rows = max(1, _CHUNK // size)
        for first in range(1, len(blocks), rows):
            now = slice(first, min(first + rows, len(blocks)))
            before = slice(now.start - 1, now.stop - 1)
            mean[now], variance[now] = _slide(blocks[before], blocks[now])
    return mean.ravel()[:count], variance.ravel()[:count]


def _grow(block: Floats) -> tuple[Floats, Floats]:
    """Return the moments before each value of the first block, except its first value."""
    anchor = block[0]
    deviations = block[:-1] - anchor
    counts = np.arange(1, len(block))
    shift = np.cumsum(deviations) / counts
    return anchor + shift, np.cumsum(deviations * deviations) / counts - shift * shift


def _slide(previous: Floats, current: Floats) -> tuple[Floats, Floats]:
    """Return the moments before each value of the current blocks, one row per block."""
    size = current.shape[1]
    anchor = previous[:, -1:]
    older = previous[:, ::-1] - anchor
    sums = np.cumsum(older, axis=1)[:, ::-1]
    squares = np.cumsum(older * older, axis=1)[:, ::-1]
    newer = current[:, :-1] - anchor
    sums[:, 1:] += np.cumsum(newer, axis=1)
    squares[:, 1:] += np.cumsum(newer * newer, axis=1)
    shift = sums / size
    return anchor + shift, squares / size - shift * shift
