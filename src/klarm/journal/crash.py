"""Crashes: what is open when a process dies without a word ends there, until somebody goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from klarm.journal.file import FILE_NAME, FileJournal, host_name
from klarm.journal.fold import Fold
from klarm.journal.lines import OnDamage
from klarm.journal.locks import InUseError, is_surely_free
from klarm.journal.records import FORMAT, Finish, Started
from klarm.types import Event
from klarm.version import __version__


def ended_by_crash(fold: Fold) -> list[Event]:
    """Return the events that end the incidents of a run whose last process died."""
    return [
        record.ending(
            "ended", record.last.step if fold.last_step is None else fold.last_step, "crashed"
        )
        for record in fold.incidents.values()
        if record.state in ("open", "settled")
    ]


def record_crash(
    folder: Path, say: Callable[[str], None], on_damage: OnDamage | None = None
) -> list[Event]:
    """Record that a run's last process died, if it did and left incidents open; or raise OSError.

    It is recorded as by a process that took the run up and ended at once. Returns what ended.
    `on_damage` is told of lines that do not count.
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
    if journal.mended:
        say(journal.mended)
    now = time.time()
    journal.record(taken_up(fold, now))
    journal.record(Finish(now, 0), ended)
    journal.close(timeout=5.0)
    return ended


def taken_up(fold: Fold, now: float) -> Started:
    """Return the run line of a process that takes a run up and trains nothing."""
    head = fold.head or Started(fold.run, now, "", "", {})
    return replace(head, started=now, klarm=__version__, host=host_name(), format=FORMAT)
