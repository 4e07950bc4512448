"""Crashes: ends the incidents that were open when a process died, until the run is resumed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from klarm.journal.file import FILE_NAME, FileJournal, host_name
from klarm.journal.fold import Fold
from klarm.journal.locks import InUseError, is_surely_free
from klarm.journal.records import DETACHED, KILLED, Finish, Started
from klarm.types import Event
from klarm.version import __version__


def ended_by_crash(fold: Fold) -> list[Event]:
    """Return the events that end the incidents of a run whose last process died.

    There are none if that process said that it only stopped watching.
    """
    if fold.outcome == DETACHED:
        return []
    return [
        record.ending(
            "ended",
            record.last.step if fold.last_step is None else fold.last_step,
            "crashed",
            seq=fold.next_seq(record.id),
        )
        for record in fold.incidents.values()
        if record.state in ("open", "settled") and record.opened.reason != "crashed"
    ]


def record_crash(folder: Path, say: Callable[[str], None], fold: Fold | None = None) -> list[Event]:
    """Record that a run's last process died, if it did and left incidents open; or raise OSError.

    The journal then reads as if a process had resumed the run and finished immediately. Returns the
    events that ended incidents. A `fold` that has read part of the journal, or all, saves reading
    it again.
    """
    fold = fold or Fold(folder / FILE_NAME)
    fold.update()
    if not _left_open(fold) or not is_surely_free(folder / FILE_NAME):
        return []
    try:
        journal = FileJournal(folder, say)
    except InUseError:
        return []
    if journal.repaired:
        say(journal.repaired)
    fold.update()  # another process may have written until now
    ended = _left_open(fold)
    if ended:
        now = time.time()
        journal.record(run_line_without_training(fold, now))
        journal.record(Finish(now, 0, outcome=KILLED), ended)
    journal.close(timeout=5.0)
    return ended


def run_line_without_training(fold: Fold, now: float) -> Started:
    """Return the run line of a process that opens an existing run without training it."""
    head = fold.head or Started(fold.run, now, "", "", {})
    return replace(head, started=now, klarm=__version__, host=host_name())


def _left_open(fold: Fold) -> list[Event]:
    """Return the events that end what the last process left open, if it has not finished."""
    return [] if fold.finished or fold.head is None else ended_by_crash(fold)
