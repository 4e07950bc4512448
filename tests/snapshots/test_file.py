"""The folder of snapshots: what is kept of them, and what no longer can be used."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from klarm.snapshots import UnfitError
from klarm.snapshots.file import SnapshotFolder, thinned, unpack


def test_the_older_the_fewer() -> None:
    """Eight at most, and none of them is more than three times as old as the next but one."""
    kept: list[int] = []
    for number in range(1, 1500):
        kept = sorted(thinned([*kept, 2_000 * number]))
        ages = [(2_000 * number - rows) / 2_000 for rows in reversed(kept)]
        assert ages[0] == 0.0
        assert len(ages) <= 8
        if number < 1_000:
            assert ages[-1] == number - 1
        assert all(later <= 9 * max(earlier, 1) for earlier, later in pairwise(ages))


def test_a_file_that_is_no_snapshot_is_refused() -> None:
    """One of a later klarm, one that is cut off, and one that unpacks to far too much."""
    for content in (b"", b"klarm snapshot 2\n" + bytes(64), b"klarm snapshot 1\n", bytes(2**21)):
        with pytest.raises(UnfitError):
            unpack(content)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    """Only names that klarm gives are read or deleted."""
    folder = SnapshotFolder(tmp_path)
    assert folder.places() == []
    folder.path.mkdir()
    for name in ("notes.txt", "5.snapshot", "1-2-x.snapshot"):
        (folder.path / name).touch()
    assert folder.places() == []
    folder.delete_from(0)
    assert len(list(folder.path.iterdir())) == 3
