"""A byte that flips in a run's files changes nothing in silence. `make faults` flips more."""

from __future__ import annotations

import pytest
from flips import flip_bytes


@pytest.mark.parametrize("flips", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_every_difference_that_a_flipped_byte_makes_is_reported(flips: int) -> None:
    """To whoever lists incidents, delivers the run, or takes it up."""
    outcome = flip_bytes(flips)
    assert outcome.silent == []
    assert outcome.flips.total() == flips
    files = ("journal.jsonl", "deliveries.jsonl")
    assert min(outcome.differing[file] for file in files) > flips / 25
