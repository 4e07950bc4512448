"""Statistics: sliding windows and a forecast for streams, whole series (`batch`), Hartigan's dip.

`batch` and `dip` need numpy and are imported where they are used.
"""

from __future__ import annotations

from klarm.stats.forecast import Forecast
from klarm.stats.streaming import MAD_TO_STD, SlidingMoments, median, scatter

__all__ = ["MAD_TO_STD", "Forecast", "SlidingMoments", "median", "scatter"]
