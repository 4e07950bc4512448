"""Snapshots that are damaged, and a long run: the short forms. (snapshot_flips.py, long_run.py)"""

from __future__ import annotations

from pathlib import Path

import pytest
import snapshot_flips

import long_run


@pytest.mark.parametrize("flips", [3, pytest.param(25, marks=pytest.mark.slow)])
def test_no_flipped_byte_of_a_snapshot_is_silently_wrong(flips: int) -> None:
    """The long form flips 500."""
    assert snapshot_flips.sweep(flips, seed=1) == (0, 0)


@pytest.mark.slow
def test_a_long_run_is_measured(tmp_path: Path) -> None:
    """Its long form is a million steps; how long they take belongs to `bench`."""
    logged = long_run.train(tmp_path, steps=4_500)
    assert 0.0 < logged["p50"] <= logged["p99.9"] <= logged["max"]
    resumed = long_run.resume(tmp_path, steps=4_500)
    assert min(resumed.values()) > 0.0
    assert "late" in (tmp_path / "long" / "journal.jsonl").read_text()
