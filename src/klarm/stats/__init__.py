"""Statistics: sliding windows over a stream, the same over whole series (`batch`), Hartigan's dip.

`batch` and `dip` need numpy and are imported where they are used.
"""

from __future__ import annotations

from klarm.stats.streaming import SlidingMedian, SlidingMinimum, SlidingMoments, median

__all__ = [
    "SlidingMedian",
    "SlidingMinimum",
    "SlidingMoments",
    "median",
]
