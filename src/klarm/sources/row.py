"""One row of a log, whatever its format, and what a reader of a format offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from klarm.metrics import TRAINER_STEP

# ms-swift prints the step as "12/300".
_STEP_OF_ALL = "global_step/max_steps"
# What logs call the step. Where there are several, the first counts updates; W&B's `_step` and
# `Step` count calls of its own.
STEP_COLUMNS = (
    TRAINER_STEP,
    "training/global_step",
    "global_step",
    "step",
    "iteration",
    "training_iteration",
    "_step",
)
# verl's file logger keeps the metrics of a step apart: {"step": 1, "data": {...}}.
_WRAPPER = "data"


class SourceError(Exception):
    """A log that cannot be read: says which, and why."""


class LogRow(NamedTuple):
    """What a log holds of one step; no step means the previous plus one."""

    step: object
    metrics: Mapping[str, object]
    late: int | None = None  # of a journal: the step that it was logged for, if it came later


class StepColumn:
    """Takes the step out of the rows of one log.

    Names are compared exactly first, then without regard to case. The column of the row before
    goes before others: two columns that count differently must never take turns.

    >>> StepColumn().row({"Global_Step": 7, "kl": 0.1})
    LogRow(step=7, metrics={'kl': 0.1}, late=None)
    >>> StepColumn().row({"step": 7, "data": {"kl": 0.1}})
    LogRow(step=7, metrics={'kl': 0.1}, late=None)
    """

    def __init__(self, name: str = "") -> None:
        """Look for the column of this name, or for one that is known."""
        self._names = (name,) if name else STEP_COLUMNS
        self.given = bool(name)
        self._column = ""  # of the row before

    def row(self, fields: Mapping[str, object]) -> LogRow:
        """Return the fields of a row with its step apart."""
        column = self._column if self._column in fields else self._find(fields)
        if column is None:
            position = fields.get(_STEP_OF_ALL)
            if isinstance(position, str) and not self.given:
                return LogRow(position.partition("/")[0], fields)
            return LogRow(None, fields)
        self._column = column
        metrics = {name: value for name, value in fields.items() if name != column}
        wrapped = metrics.get(_WRAPPER)
        if len(metrics) == 1 and isinstance(wrapped, Mapping):
            metrics = dict(wrapped)
        step = fields[column]
        return LogRow(None if step == "" else step, metrics)  # an empty cell is no step

    def _find(self, fields: Mapping[str, object]) -> str | None:
        for name in self._names:
            if name in fields:
                return name
        spelt = {_plain(name): name for name in reversed([*fields])}
        found = (spelt[_plain(name)] for name in self._names if _plain(name) in spelt)
        return next(found, None)


def _plain(name: object) -> str:
    """Return a name in lower case, with underscores for blanks.

    >>> _plain("Global Step")
    'global_step'
    """
    return str(name).strip().lower().replace(" ", "_")


class Reader(Protocol):
    """Turns the bytes of a log into rows, piece by piece, as they come."""

    def feed(self, piece: bytes) -> Iterator[LogRow]:
        """Yield the rows that are whole with this piece."""

    def quiet(self) -> Iterator[LogRow]:
        """Yield what was held back for more to come: nothing comes for now."""

    def end(self) -> Iterator[LogRow]:
        """Yield what was held back: nothing comes any more."""
