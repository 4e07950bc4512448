"""Crashes: ends the incidents that were open when a process died, until the run is resumed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from klarm.journal.file import FILE_NAME, FileJournal, host_name
from klarm.journal.fold import Fold
from klarm.journal.lines import OnDamage
from klarm.journal.locks import InUseError, is_surely_free
from klarm.journal.records import DETACHED, Finish, Started
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


def record_crash(
    folder: Path, say: Callable[[str], None], on_damage: OnDamage | None = None
) -> list[Event]:
    """Record that a run's last process died, if it did and left incidents open; or raise OSError.

    The journal then reads as if a process had resumed the run and finished immediately. Returns the
    events that ended incidents. `on_damage` is called for each line that is ignored.
    """
    fold = Fold(folder / FILE_NAME, on_damage)
    fold.update()
    ended = ended_by_crash(fold)
    if fold.finished or fold.head is None or not ended or not is_surely_free(folder / FILE_NAME):
        return []
    try:
        journal = FileJournal(folder, say)
    except InUseError:
        return []
    if journal.repaired:
        say(journal.repaired)
    now = time.time()
    journal.record(run_line_without_training(fold, now))
    journal.record(Finish(now, 0, outcome="crashed"), ended)
    journal.close(timeout=5.0)
    return ended


def run_line_without_training(fold: Fold, now: float) -> Started:
    """Return the run line of a process that opens an existing run without training it."""
    head = fold.head or Started(fold.run, now, "", "", {})
    return replace(head, started=now, klarm=__version__, host=host_name())
