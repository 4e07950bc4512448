"""Lines that klarm cannot have written because they are too long: skipped in linear time."""

from __future__ import annotations

import os
from pathlib import Path

from batches import surviving_rows

from klarm.journal import FileJournal, Fold, Started, read_journal, recorded_events, steps_back
from klarm.journal.commands import read_lines
from klarm.journal.lines import MAX_LINE_BYTES

HUGE = 50 * MAX_LINE_BYTES


def journal_with(damage: bytes, folder: Path) -> Path:
    """Return a journal of 20 steps with something in its middle."""
    written = FileJournal(folder, print)
    written.record(Started("a", 1.0, "0.2.0", "node", {}))
    for step in range(20):
        written.step(step, 1.0, {"kl": 0.1})
        if step == 9:
            os.write(written._appender._file, damage)
    written.close(5.0)
    return folder / "journal.jsonl"


def test_a_huge_line_is_damage_and_is_skipped(tmp_path: Path) -> None:
    """By each way to read a journal; the steps around it count."""
    journal = journal_with(b"x" * HUGE + b"\n", tmp_path)
    damaged: list[tuple[int, str]] = []
    fold = Fold(journal, lambda number, why: damaged.append((number, why)))
    fold.update()
    assert (fold.steps, fold.last_step, damaged) == (20, 19, [(12, "damaged")])
    assert fold.read_to == journal.stat().st_size
    assert len(list(surviving_rows(journal, ["kl"]))) == 20
    assert len(list(read_journal(journal))) == 22 - 1
    assert len(list(steps_back(journal))) == 20
    assert list(recorded_events(journal)) == []
    assert len(list(read_lines(journal))) == 22


def test_a_huge_line_without_an_end_is_not_read_again_and_again(tmp_path: Path) -> None:
    """It may be what a disk made of a torn write."""
    journal = journal_with(b"", tmp_path)
    with journal.open("ab") as file:
        file.write(b"\0" * HUGE)
    fold = Fold(journal)
    fold.update()
    assert fold.steps == 20
    assert len(list(steps_back(journal))) == 20


def test_lines_that_begin_like_events_within_a_huge_one_are_not_found(tmp_path: Path) -> None:
    """A line begins after a newline only."""
    inside = b'{"type":"event"' * (2 * MAX_LINE_BYTES // 15)
    journal = journal_with(inside + b"\n", tmp_path)
    assert list(recorded_events(journal)) == []
    assert Fold(journal).update() == []


def test_klarm_writes_no_line_that_it_would_skip(tmp_path: Path) -> None:
    """The step is recorded without its values, and that is said once."""
    said: list[str] = []
    written = FileJournal(tmp_path, said.append)
    written.record(Started("a", 1.0, "0.2.0", "node", {}))
    for step in range(2):
        written.step(step, 1.0, {f"metric_{number:030d}": 0.1 for number in range(30_000)})
    written.close(5.0)
    fold = Fold(tmp_path / "journal.jsonl")
    fold.update()
    assert fold.steps == 2
    assert len(said) == 1
    assert "step 0 has 30000 metrics" in said[0]
