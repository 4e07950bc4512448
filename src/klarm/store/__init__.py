"""Where the logs of runs lie: a folder of runs, behind calls that a database can answer, too."""

from __future__ import annotations

from klarm.store.base import LOGS, Listing, LogState, OffsetError, RunAt, Store
from klarm.store.folder import FolderStore, id_of, runs_below, shown
from klarm.store.log_file import LogFile

__all__ = [
    "LOGS",
    "FolderStore",
    "Listing",
    "LogFile",
    "LogState",
    "OffsetError",
    "RunAt",
    "Store",
    "id_of",
    "runs_below",
    "shown",
]
