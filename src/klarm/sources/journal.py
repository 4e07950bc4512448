"""Reads klarm's own journals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from klarm.journal import (
    Bound,
    Checkpoint,
    Damage,
    Finish,
    Resume,
    Started,
    Step,
    head_of,
    read_journal,
)
from klarm.sources.row import LogRow
from klarm.types import Command

_MAX_SAID = 10
_WHAT: dict[Damage, str] = {
    "damaged": "damaged",
    "not by klarm": "not written by klarm",
    "incomplete": "incomplete",
}
# The records of a journal, besides steps, that a replay needs.
OtherRecord = Resume | Started | Bound | Checkpoint | Command | Finish


def read(path: Path, say: Callable[[str], None]) -> Iterator[LogRow | OtherRecord]:
    """Yield the steps of a journal, and the other records that affect incidents.

    The first record is always a run line, even if that of the journal is damaged.
    """
    head = head_of(path)

    for record in read_journal(path, Damages(path, say)):
        if head is not None and not isinstance(record, Started):
            yield head
        head = None
        if isinstance(record, Step):
            if record.late is not None and not record.metrics:
                continue  # it only repeats earlier values
            yield LogRow(record.step, record.metrics, record.late)
        elif isinstance(record, OtherRecord):
            yield record


class Damages:
    """Reports the lines of a journal that are ignored, but only the first few."""

    def __init__(self, journal: Path, say: Callable[[str], None]) -> None:
        self._journal = journal
        self._say = say
        self._said = 0

    def __call__(self, number: int, why: Damage) -> None:
        """Report one line."""
        self._said += 1
        if self._said <= _MAX_SAID:
            more = "; further ones are not listed" if self._said == _MAX_SAID else ""
            self._say(f"{self._journal} line {number} is {_WHAT[why]} and ignored{more}")
