"""Draws a series as one line of characters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from klarm.stats import median

_LEVELS = "▁▂▃▄▅▆▇█"
_BROKEN = "×"


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """Return the values as characters from low to high; values that are not finite are crosses.

    If several values share a character, the one farthest from the median is shown, so that no spike
    is lost.

    >>> sparkline([0, 1, 2, 3, 4, 5, 6, 7, float("nan")])
    '▁▂▃▄▅▆▇█×'
    """
    finite = [value for value in values if math.isfinite(value)]
    middle = median(finite) if finite else 0.0
    columns = min(width, len(values))
    shown = [
        _farthest(values[i * len(values) // columns : (i + 1) * len(values) // columns], middle)
        for i in range(columns)
    ]
    kept = [value for value in shown if math.isfinite(value)]
    low, high = (min(kept), max(kept)) if kept else (0.0, 0.0)
    return "".join(_character(value, low, high) for value in shown)


def _farthest(values: Sequence[float], middle: float) -> float:
    return max(values, key=lambda v: abs(v - middle) if math.isfinite(v) else math.inf)


def _character(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return _BROKEN
    # Halves are used, because the difference may overflow.
    span = high / 2 - low / 2
    share = (value / 2 - low / 2) / span if span > 0 else 0.0
    return _LEVELS[min(int(share * len(_LEVELS)), len(_LEVELS) - 1)]
