"""Statistics: sliding windows and a forecast for streams, whole series (`batch`), Hartigan's dip.

`batch` and `dip` need numpy and are imported where they are used.
"""

from __future__ import annotations

from klarm.stats.forecast import Forecast
from klarm.stats.streaming import (
    MedianWithin,
    SlidingMean,
    SlidingMedian,
    SlidingMoments,
    median,
)

__all__ = [
    "Forecast",
    "MedianWithin",
    "SlidingMean",
    "SlidingMedian",
    "SlidingMoments",
    "median",
]
