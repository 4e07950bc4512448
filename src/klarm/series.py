"""Statistics of a whole series at once, with numpy.

`sliding_moments` is `klarm.stats.SlidingMoments` again: it adds the same numbers in the same order,
so the two agree to the last bit. Change one and change the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Values worked on at a time: what fits in a processor's cache.
_CHUNK = 32_768


def sliding_moments(values: Floats, size: int) -> tuple[Floats, Floats]:
    """Return mean and variance of the `size` values before each one.

    Before the first value there is nothing: its two entries are 0.
    """
    mean, variance = np.zeros(len(values)), np.zeros(len(values))
    with np.errstate(over="ignore", invalid="ignore"):
        _grow(values[:size], mean, variance)
        blocks = len(values) // size
        rows = max(1, _CHUNK // size)
        for first in range(0, blocks, rows):
            last = min(first + rows, blocks)
            previous = values[first * size : last * size].reshape(-1, size)
            current = values[first * size + size : last * size + size]
            missing = previous.size - current.size  # the last block may be short
            padded = np.pad(current, (0, missing)) if missing else current
            found = _slide(previous, padded.reshape(-1, size))
            until = slice(first * size + size, first * size + size + current.size)
            for target, block in zip((mean, variance), found, strict=True):
                target[until] = block.ravel()[: current.size]
    return mean, variance


def _grow(values: Floats, mean: Floats, variance: Floats) -> None:
    """Fill in the moments before each value of the first block, as SlidingMoments._grow does."""
    deviations = values[:-1] - values[:1]
    counts = np.arange(1, len(deviations) + 1)
    shift = np.cumsum(deviations) / counts
    mean[1 : len(values)] = values[:1] + shift
    variance[1 : len(values)] = np.cumsum(deviations * deviations) / counts - shift * shift


def _slide(previous: Floats, current: Floats) -> tuple[Floats, Floats]:
    """Return the moments before each value of the current blocks, a row a block."""
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
