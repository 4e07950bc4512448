"""A row of a log, whatever its format, and what a reader of a format offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

# What logs call the step, the likeliest first.
_STEP_KEYS = ("step", "global_step", "train/global_step", "training/global_step", "_step")
# ms-swift prints it as "12/300".
_STEP_OF_ALL = "global_step/max_steps"
# verl's file logger keeps the metrics of a step apart: {"step": 1, "data": {...}}.
_WRAPPER = "data"


class SourceError(Exception):
    """A log that cannot be read: says which, and why."""


class LogRow(NamedTuple):
    """What a log holds of one step; no step means the previous plus one."""

    step: object
    metrics: Mapping[str, object]
    late: int | None = None  # of a journal: the step that it was logged for, if it came later

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> LogRow:
        """Take a log's own step key out of its fields.

        >>> LogRow.of({"global_step": 7, "kl": 0.1})
        LogRow(step=7, metrics={'kl': 0.1}, late=None)
        >>> LogRow.of({"step": 7, "data": {"kl": 0.1}})
        LogRow(step=7, metrics={'kl': 0.1}, late=None)
        """
        for key in _STEP_KEYS:
            if key in fields:
                metrics = {k: v for k, v in fields.items() if k != key}
                wrapped = metrics.get(_WRAPPER)
                if len(metrics) == 1 and isinstance(wrapped, Mapping):
                    metrics = dict(wrapped)
                return cls(fields[key], metrics)
        if isinstance(position := fields.get(_STEP_OF_ALL), str):
            return cls(position.partition("/")[0], fields)
        return cls(None, fields)


class Reader(Protocol):
    """Turns the bytes of a log into rows, piece by piece, as they come."""

    def feed(self, piece: bytes) -> Iterator[LogRow]:
        """Yield the rows that are whole with this piece."""

    def quiet(self) -> Iterator[LogRow]:
        """Yield what was held back for more to come: nothing comes for now."""

    def end(self) -> Iterator[LogRow]:
        """Yield what was held back: nothing comes any more."""
