"""Snapshots: the state of a run every 2,000 rows, so that a rollback does not replay all rows."""

from __future__ import annotations

from klarm.snapshots.file import (
    EVERY_ROWS,
    FOLDER,
    Snapshot,
    StoredSnapshot,
    pack_state,
    unpack_state,
)
from klarm.snapshots.graph import Capture, Restore
from klarm.snapshots.keeper import Keeper, SharedFold
from klarm.snapshots.state import UnfitError, class_name

__all__ = [
    "EVERY_ROWS",
    "FOLDER",
    "Capture",
    "Keeper",
    "Restore",
    "SharedFold",
    "Snapshot",
    "StoredSnapshot",
    "UnfitError",
    "class_name",
    "pack_state",
    "unpack_state",
]
