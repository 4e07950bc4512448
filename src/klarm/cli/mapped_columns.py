"""Checks whether a log has the columns that --map names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from klarm.metrics import STEP
from klarm.settings import did_you_mean
from klarm.sources import STDIN, SourceError


def check_mapped_columns(
    mapped: Mapping[str, str],
    log: Path,
    *,
    found: Iterable[str],
    names: Iterable[str],
    remark: str = "",
) -> None:
    """Raise SourceError if a metric was not found, because the log lacks the column named for it.

    `names` are those of the log; the remark goes to the end of the message.
    """
    known = {STEP, *found}
    for metric, column in mapped.items():
        if metric not in known:
            named = "stdin" if log == STDIN else log
            near = did_you_mean(column, names)
            raise SourceError(f"--map: {named} has no column {column} for {metric}{near}{remark}")
