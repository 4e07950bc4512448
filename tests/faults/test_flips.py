"""A byte that flips in a run's files changes nothing in silence. `make faults` flips more."""

from __future__ import annotations

from flips import flip_bytes


def test_every_difference_that_a_flipped_byte_makes_is_reported() -> None:
    """To whoever lists incidents, delivers the run, or takes it up."""
    outcome = flip_bytes(500)
    assert outcome.silent == []
    assert outcome.flips.total() == 500
    assert min(outcome.differing["journal.jsonl"], outcome.differing["deliveries.jsonl"]) > 20
