"""Closing: a person closes an incident of a run that is not training at the moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from klarm.journal.commands import with_clean_name
from klarm.journal.crash import ended_by_crash, run_line_without_training
from klarm.journal.file import FILE_NAME, FileJournal
from klarm.journal.fold import Fold
from klarm.journal.incident import add_event
from klarm.journal.locks import InUseError, is_surely_free
from klarm.journal.records import KILLED, Finish
from klarm.types import Command, Event, Reason


def close_at_rest(fold: Fold, command: Command) -> list[Event]:
    """Apply a command to a run that is not training; return the events that result.

    The fold is updated immediately. No detector is running, so the incident is resolved as it was
    last recorded, at the last step.
    """
    record = fold.incidents.get(command.incident)
    accepted = command.command == "accept"
    if record is None or not record.is_open or not (accepted or command.command == "close"):
        return []
    reason: Reason = "accepted" if accepted else "closed"
    closed = record.ending(
        "resolved", fold.last_step or 0, reason, command.by, seq=fold.next_seq(record.id)
    )
    add_event(fold.incidents, closed)
    return [closed]


def record_command(
    folder: Path, command: Command, say: Callable[[str], None], fold: Fold | None = None
) -> bool:
    """Write a command and the events it causes to the journal of a run, or raise OSError.

    Returns False, and writes nothing, if a process is training the run: that process applies the
    command itself. The journal then reads as if a process had resumed the run, applied the command
    and finished. A `fold` that has read part of the journal, or all, saves reading it again.
    """
    if not is_surely_free(folder / FILE_NAME):
        return False
    try:
        journal = FileJournal(folder, say)
    except InUseError:
        return False
    fold = fold or Fold(folder / FILE_NAME)
    fold.update()  # only now that nobody else writes
    now = time.time()
    journal.record(run_line_without_training(fold, now))
    applied = replace(with_clean_name(command), step=(fold.last_step or 0) + 1)
    journal.record(applied, close_at_rest(fold, applied))
    outcome = fold.outcome if fold.finished else KILLED
    journal.record(Finish(now, 0, outcome=outcome), ended_by_crash(fold))
    journal.close(timeout=5.0)
    return True
