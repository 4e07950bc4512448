"""Closing an incident where no process trains: recorded as by one that ended at once."""

from __future__ import annotations

import pytest
from batches import FOLDER, JOURNAL, RUN, event, records, written

from klarm.journal import activity_of
from klarm.journal.closing import close_at_rest, record_command
from klarm.journal.file import FileJournal
from klarm.journal.fold import Fold
from klarm.journal.records import Finish, Started, Step
from klarm.types import Command, CommandKind, Event

OPENED = event("opened", 1, 3, "confirmed", id="kaaaaaaa")
OTHER = event("opened", 2, 3, "confirmed", id="kbbbbbbb", signal="loss")


def person_gives(kind: CommandKind, incident: str = "kaaaaaaa") -> Command:
    return Command(command=kind, key="c1", time=1.5, by="ada", incident=incident)


def fold_of(*events: Event) -> Fold:
    written([(RUN, ()), (Step(3, 1.5, {"kl": 9.0}), events), (Step(9, 2.5, {"kl": 9.0}), ())])
    fold = Fold(JOURNAL)
    fold.update()
    return fold


@pytest.mark.parametrize(("kind", "reason"), [("close", "closed"), ("accept", "accepted")])
def test_the_journal_gets_the_command_and_the_end(kind: CommandKind, reason: str) -> None:
    """At the last step, between the lines of a process that trained nothing."""
    fold_of(OPENED)
    assert record_command(FOLDER, person_gives(kind), print)
    head, command, closed, finish = records()[-4:]
    assert isinstance(head, Started)
    assert isinstance(command, Command)
    assert isinstance(closed, Event)
    assert isinstance(finish, Finish)
    assert (command.step, command.lines) == (10, 1)
    assert (closed.event, closed.reason, closed.step, closed.by) == ("resolved", reason, 9, "ada")


def test_what_else_was_open_ended_with_the_crash() -> None:
    """As `klarm deliver` would record it; an incident that is closed does not end twice."""
    fold_of(OPENED, OTHER)
    record_command(FOLDER, person_gives("close"), print)
    ends = [(r.id, r.event, r.reason) for r in records() if isinstance(r, Event)][2:]
    assert ends == [("kaaaaaaa", "resolved", "closed"), ("kbbbbbbb", "ended", "crashed")]
    fold = Fold(JOURNAL)
    fold.update()
    assert activity_of(fold, lambda: True) == "stopped"  # as before: it was killed


def test_a_live_run_is_left_to_itself() -> None:
    """Its process holds the journal."""
    fold_of(OPENED)
    before = JOURNAL.read_bytes()
    alive = FileJournal(FOLDER, print)
    assert not record_command(FOLDER, person_gives("close"), print)
    alive.close(1.0)
    assert JOURNAL.read_bytes() == before


def test_a_fold_that_has_read_a_part_is_continued() -> None:
    """What was written since counts, and nothing is read twice: the end is at the last step."""
    fold = fold_of(OPENED)
    journal = FileJournal(FOLDER, print)
    journal.step(12, 3.5, {"kl": 9.0})
    journal.close(1.0)
    assert record_command(FOLDER, person_gives("close"), print, fold)
    (closed,) = [r for r in records() if isinstance(r, Event) and r.event == "resolved"]
    assert (closed.step, closed.reason, fold.steps) == (12, "closed", 3)


def test_only_an_open_incident_is_closed() -> None:
    """And by nothing else than close or accept."""
    fold = fold_of(OPENED, event("resolved", 1, 3, "recovered", id="kaaaaaaa"), OTHER)
    assert close_at_rest(fold, person_gives("close")) == []
    assert close_at_rest(fold, person_gives("close", "kzzzzzzz")) == []
    assert close_at_rest(fold, person_gives("ack", "kbbbbbbb")) == []
    (closed,) = close_at_rest(fold, person_gives("close", "kbbbbbbb"))
    assert fold.incidents["kbbbbbbb"].last == closed
    assert close_at_rest(fold, person_gives("close", "kbbbbbbb")) == []


def test_a_journal_without_a_run_line_can_be_closed_in() -> None:
    """It is damaged: the run has the name of its folder."""
    fold_of(OPENED)
    JOURNAL.write_bytes(b"?" + JOURNAL.read_bytes()[1:])
    assert record_command(FOLDER, person_gives("close"), print)
    (head,) = [record for record in records() if isinstance(record, Started)]
    assert head.run == "a"
