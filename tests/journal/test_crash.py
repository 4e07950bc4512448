"""Crashes: what was open when a process died is recorded as ended, once, and by nobody else."""

from __future__ import annotations

from collections.abc import Sequence

from batches import FOLDER, JOURNAL, RUN, Batch, event, records, written

from klarm.journal.crash import ended_by_crash, record_crash
from klarm.journal.file import FileJournal
from klarm.journal.fold import Fold
from klarm.journal.records import Finish, Started, Step
from klarm.types import Event, EventKind

OPENED = event("opened", 1, 3, "confirmed", id="kaaaaaaa")


def killed(*events: Event) -> list[Batch]:
    """A run that went on to step 9 and said no more."""
    return [(RUN, ()), (Step(3, 1.5, {"kl": 9.0}), events), (Step(9, 2.5, {"kl": 9.0}), ())]


def ended() -> list[tuple[EventKind, str, int]]:
    return [(r.event, r.reason, r.step) for r in records() if isinstance(r, Event)][1:]


def fold_of(batches: Sequence[Batch]) -> Fold:
    written(batches)
    fold = Fold(JOURNAL)
    fold.update()
    return fold


def test_what_was_open_ends_at_the_last_step() -> None:
    """It is recorded as by a process that took the run up and ended at once."""
    written(killed(OPENED))
    (event_,) = record_crash(FOLDER, print)
    assert (event_.id, event_.reason) == ("kaaaaaaa", "crashed")
    assert ended() == [("ended", "crashed", 9)]
    *_, head, finish, _ = records()
    assert isinstance(head, Started)
    assert head.run == "a"
    assert isinstance(finish, Finish)
    assert finish.lines == 1


def test_it_is_recorded_once() -> None:
    """The second time, the run has said that it ended."""
    written(killed(OPENED))
    record_crash(FOLDER, print)
    once = JOURNAL.read_bytes()
    assert record_crash(FOLDER, print) == []
    assert JOURNAL.read_bytes() == once


def test_a_live_run_has_not_crashed() -> None:
    """Its process holds the journal."""
    written(killed(OPENED))
    alive = FileJournal(FOLDER, print)
    assert record_crash(FOLDER, print) == []
    alive.close(1.0)
    assert ended() == []


def test_a_fold_that_has_read_a_part_is_continued() -> None:
    """The incident was resolved since, so nothing was left open."""
    fold = fold_of(killed(OPENED))
    journal = FileJournal(FOLDER, print)
    journal.step(12, 3.5, {"kl": 9.0}, [event("resolved", 1, 12, "recovered", id="kaaaaaaa")])
    journal.close(1.0)
    assert record_crash(FOLDER, print, fold) == []
    assert fold.last_step == 12


def test_a_run_that_ended_or_had_nothing_open_is_left_as_it_is() -> None:
    """There is nothing to say."""
    resolved = event("resolved", 1, 5, "recovered", id="kaaaaaaa")
    for batches in ([*killed(OPENED), (Finish(3.5, 2), ())], killed(OPENED, resolved), killed()):
        before = written(batches)
        assert record_crash(FOLDER, print) == []
        assert JOURNAL.read_bytes() == before


def test_a_settled_incident_is_open() -> None:
    """It ends with the crash, too; the diagnosis of its opening is not repeated."""
    settled = event("settled", 1, 5, "settled", id="kaaaaaaa")
    (end,) = ended_by_crash(fold_of(killed(OPENED, settled)))
    assert (end.event, end.reason, end.step, end.remedy) == ("ended", "crashed", 9, "")
