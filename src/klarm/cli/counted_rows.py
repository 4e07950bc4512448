"""Checks whether a log has a step column, and reports if rows are counted instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from klarm.sources import LogRow, SourceError

_Item = TypeVar("_Item")
# The first rows may hold something else, such as settings.
_ROWS = 3
_MAX_NAMES = 10
_LIKE_A_STEP = re.compile(r"step|iter|update", re.IGNORECASE)


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
        self._names: dict[str, None] = {}  # in order

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
        self._names.update(dict.fromkeys(map(str, row.metrics)))
        if self._rows == _ROWS:
            self._without_steps()

    def _without_steps(self) -> None:
        self._known = True
        log = "stdin" if str(self._log) == "-" else self._log
        if self._column:
            names = ", ".join([*self._names][:_MAX_NAMES])
            more = ", ..." if len(self._names) > _MAX_NAMES else ""
            raise SourceError(f"{log} has no column {self._column}; it has {names}{more}")
        likely = next((name for name in self._names if _LIKE_A_STEP.search(name)), "NAME")
        self._say(
            f"{log}: no step column found, so rows are counted from 0; if there is one, name it "
            f"with --step-column {likely}"
        )
