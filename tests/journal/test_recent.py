"""What a run that is not recorded has in memory, and no more than that."""

from __future__ import annotations

from klarm.journal import RecentJournal, history
from klarm.journal.records import Resume


def test_it_is_read_as_a_journal_is() -> None:
    """From an offset on, without what nobody reads."""
    journal = RecentJournal()
    for step in range(5):
        journal.step(step, 0.0, {"kl": float(step), "my/metric": 1.0})
    begin = journal.end
    journal.step(5, 0.0, {"kl": 5.0})
    journal.record(Resume(4, 0.0))
    journal.step(4, 0.0, {"kl": 4.5})
    journal.forget_before(begin)
    assert list(history(journal.since(begin), ["kl"], after=(0, 4, ()))) == [
        Resume(4, 0.0),
        (4, {"kl": 4.5}),
    ]
    journal.forget_before(0)  # long gone
    assert (journal.first_step, journal.last_step, journal.begin) == (0, 4, begin)


def test_it_does_not_grow_for_ever() -> None:
    """Where no snapshot can be taken, as with a detector whose state nobody knows."""
    journal = RecentJournal()
    for step in range(3):
        journal.step(step, 0.0, {"kl": 1.0})
    journal._append(bytes(16 * 2**20))
    assert journal.begin == journal.end
