"""One row of a log in any format, and the interface of readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from klarm.metrics import TRAINER_STEP

# ms-swift prints the step as "12/300".
_STEP_OF_ALL = "global_step/max_steps"
# Names of the step column, the best first: W&B's `_step` and `Step` count calls of W&B's `log`, not
# updates.
STEP_COLUMNS = (
    TRAINER_STEP,
    "training/global_step",
    "global_step",
    "step",
    "iteration",
    "training_iteration",
    "_step",
)
# verl's file logger nests the metrics of a step: {"step": 1, "data": {...}}.
_WRAPPER = "data"


class SourceError(Exception):
    """A log cannot be read. The message says which log, and why."""


class LogRow(NamedTuple):
    """One row of a log. Without a step, it is the previous step plus one."""

    step: object
    metrics: Mapping[str, object]
    late: int | None = None  # in a journal: the step that a late row was logged for


class StepColumn:
    """Finds the step in the rows of one log.

    Names are compared exactly first, then ignoring case. The column of the previous row is
    preferred, so that klarm never alternates between two columns that count differently.

    >>> StepColumn().row({"Global_Step": 7, "kl": 0.1})
    LogRow(step=7, metrics={'kl': 0.1}, late=None)
    >>> StepColumn().row({"step": 7, "data": {"kl": 0.1}})
    LogRow(step=7, metrics={'kl': 0.1}, late=None)
    """

    def __init__(self, name: str = "") -> None:
        """Look for the column of this name, or for one of the known names."""
        self._names = (name,) if name else STEP_COLUMNS
        self.given = bool(name)
        self._column = ""  # of the previous row

    def row(self, fields: Mapping[str, object]) -> LogRow:
        """Return a row from its fields, with the step separated from the metrics."""
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
        return LogRow(None if step == "" else step, metrics)  # an empty cell is not a step

    def _find(self, fields: Mapping[str, object]) -> str | None:
        for name in self._names:
            if name in fields:
                return name
        by_plain_name = {_plain(name): name for name in reversed([*fields])}
        found = (
            by_plain_name[_plain(name)] for name in self._names if _plain(name) in by_plain_name
        )
        return next(found, None)


def _plain(name: object) -> str:
    """Return a name in lower case, with underscores instead of spaces.

    >>> _plain("Global Step")
    'global_step'
    """
    return str(name).strip().lower().replace(" ", "_")


class Reader(Protocol):
    """Turns the bytes of a log into rows, in pieces as they arrive."""

    def feed(self, piece: bytes) -> Iterator[LogRow]:
        """Yield the rows that this piece completes."""

    def quiet(self) -> Iterator[LogRow]:
        """Yield what was held back, because nothing more comes for now."""

    def end(self) -> Iterator[LogRow]:
        """Yield what was held back, because the log is complete."""
