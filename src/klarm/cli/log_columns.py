"""Checks whether a log has the columns that are needed: a step, and those that --map names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from klarm.metrics import STEP, to_number
from klarm.settings import did_you_mean
from klarm.sources import STDIN, LogRow, SourceError

_Item = TypeVar("_Item")
# The first rows may hold something else, such as settings.
_ROWS = 3
_MAX_NAMES = 10
_LIKE_A_STEP = re.compile(r"step|iter|update", re.IGNORECASE)


def name_of(log: Path) -> str:
    """Return what a message calls a log."""
    return "stdin" if log == STDIN else str(log)


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
            near = did_you_mean(column, names)
            raise SourceError(
                f"--map: {name_of(log)} has no column {column} for {metric}{near}{remark}"
            )


class CountedRows:
    """Looks for a step in the first rows of a log, before they are used.

    Raises SourceError if the log has no column of the name that the user has given.
    """

    def __init__(self, log: Path, step_column: str, say: Callable[[str], None]) -> None:
        self._log = log
        self._column = step_column
        self._say = say
        self._known = False  # whether the rows have steps, once that is known
        self._rows = 0
        self._values: dict[str, list[float | None]] = {}  # of the first rows, by column

    def checked(self, rows: Iterable[_Item], *, are_all: bool) -> Iterator[_Item]:
        """Yield the rows, once the first ones were checked. `are_all`: no more will come."""
        if self._known:
            yield from rows
            return
        held: list[_Item] = []
        for row in rows:
            held.append(row)
            if not self._known and isinstance(row, LogRow):
                self._look(row)
            if self._known:
                yield from held
                held.clear()
        if self._rows and are_all and not self._known:
            self._without_steps()
        yield from held

    def _look(self, row: LogRow) -> None:
        if row.step is not None:
            self._known = True
            return
        self._rows += 1
        for name, value in row.metrics.items():
            self._values.setdefault(str(name), []).append(to_number(value))
        if self._rows == _ROWS:
            self._without_steps()

    def _without_steps(self) -> None:
        self._known = True
        log = name_of(self._log)
        if self._column:
            names = ", ".join([*self._values][:_MAX_NAMES])
            more = ", ..." if len(self._values) > _MAX_NAMES else ""
            raise SourceError(f"{log} has no column {self._column}; it has {names}{more}")
        rising = [name for name, values in self._values.items() if _are_steps(values)]
        named = [name for name in rising if _LIKE_A_STEP.search(name)]
        hint = "if there is one, pass --step-column NAME"
        if likely := [shlex.quote(name) for name in (*named, *rising)][:1]:
            hint = f"if {likely[0]} is the step, pass --step-column {likely[0]}"
        self._say(f"{log}: no step column found, so rows are counted from 0; {hint}")


def _are_steps(values: list[float | None]) -> bool:
    """Return whether the first values of a column could be steps: whole numbers that rise.

    >>> _are_steps([0.0, 10.0, 20.0]), _are_steps([1e-6, 1e-6, 1e-6]), _are_steps([3.0, 2.0, 1.0])
    (True, False, False)
    """
    known = [value for value in values if value is not None and value.is_integer()]
    rises = all(before < after for before, after in pairwise(known))
    return len(known) == len(values) > 1 and rises
