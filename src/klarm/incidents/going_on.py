"""Whether a trend goes on as before: no faster, and up to the last rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from klarm.stats import MAD_TO_STD, median, scatter

_FIRST_SHARE = 0.5  # the share of the values whose trend is meant
# It has led further than it should have if it has led this many times as far, and this many spreads
# further.
_IN_LINE_FACTOR, _NOISE_SPREADS = 2.0, 3.0
# It pauses if the last third of this last part of the values turns back by this many spreads: noise
# does so once in ten times.
_LATE_SHARE, _PAUSE_SPREADS = 4, 0.25
# The last few values must not be behind the trend by more than the first number of noise units, nor
# ahead of it by more than the second: noise is behind once in five times.
_LATEST = 5
_BEHIND_NOISE, _AHEAD_NOISE = 0.5, 2.0
# A scatter below this share of the level is rounding, not noise.
_MIN_RELATIVE_NOISE, _MIN_NOISE = 1e-3, 1e-300


def is_in_line(values: list[float], away: float, spread: float) -> bool:
    """Return whether the trend of the first half explains most of the distance from it.

    Between its quarters it went a third of the way that leads from its middle to the last row. The
    last few values must not be far beyond the trend either: it may just have become faster.
    """
    split = int(len(values) * _FIRST_SHARE)
    first_half, middle = values[:split], split // 2
    trend = 3.0 * (median(first_half[middle:]) - median(first_half[:middle]))
    if abs(away) > _IN_LINE_FACTOR * abs(trend) + _NOISE_SPREADS * spread:
        return False
    return _off_trend(values, math.copysign(1.0, away)) <= _AHEAD_NOISE


def pauses(values: list[float], side: float, spread: float) -> bool:
    """Return whether values have not gone on, in their last few or in their last quarter.

    The last quarter is judged by its last third.
    """
    quarter = len(values) // _LATE_SHARE
    latest = values[-quarter:]
    end = len(latest) - len(latest) // 3
    back = math.copysign(1.0, side) * (median(latest[:end]) - median(latest[end:]))
    if back > _PAUSE_SPREADS * spread:
        return True
    return _off_trend(values, math.copysign(1.0, side)) < -_BEHIND_NOISE


def _off_trend(values: Sequence[float], side: float) -> float:
    """Return how far the last few values are beyond the trend of all before them.

    In units of noise; negative if they stay behind the trend, or have turned back.
    """
    earlier_values = values[:-_LATEST]
    half = len(earlier_values) // 2
    earlier, later = median(earlier_values[:half]), median(earlier_values[half:])
    slope = (later - earlier) / (len(earlier_values) / 2)
    expected = [earlier + slope * (place - (half - 1) / 2) for place in range(len(values))]
    off = [value - known for value, known in zip(values, expected, strict=True)]
    noise = MAD_TO_STD * scatter(off[:-_LATEST], 0.0)
    noise = max(noise, _MIN_RELATIVE_NOISE * abs(later), _MIN_NOISE)
    return side * median(off[-_LATEST:]) / noise
