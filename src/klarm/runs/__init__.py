"""One view of a run: what its logs say, the same for commands, page, delivery and replay."""

from __future__ import annotations

from klarm.runs.columns import (
    Axis,
    Columns,
    Extent,
    Points,
    has_value,
)
from klarm.runs.curve import Curve, Value, column_of, columns_of
from klarm.runs.extremes import Floats, Ints, counts_of, first_equal, starts_of
from klarm.runs.known import GoneBack, Kept, Place, Told, limits_of
from klarm.runs.marks import FalseAlarm, mark, marked
from klarm.runs.state import SHOWN_METRICS, SLICE_BYTES, News, RunState
from klarm.runs.view import (
    Alerts,
    RunView,
    ago,
    continue_from_summary,
    keep_summary,
    read_run,
    store_of,
)

__all__ = [
    "SHOWN_METRICS",
    "SLICE_BYTES",
    "Alerts",
    "Axis",
    "Columns",
    "Curve",
    "Extent",
    "FalseAlarm",
    "Floats",
    "GoneBack",
    "Ints",
    "Kept",
    "News",
    "Place",
    "Points",
    "RunState",
    "RunView",
    "Told",
    "Value",
    "ago",
    "column_of",
    "columns_of",
    "continue_from_summary",
    "counts_of",
    "first_equal",
    "has_value",
    "keep_summary",
    "limits_of",
    "mark",
    "marked",
    "read_run",
    "starts_of",
    "store_of",
]
