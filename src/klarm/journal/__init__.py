"""The journal: the record of a run on disk, how it is written and how it is read."""

from __future__ import annotations

from klarm.journal.appender import InUseError
from klarm.journal.file import (
    FILE_NAME,
    FileJournal,
    History,
    Journal,
    MemoryJournal,
    folder_name,
    host_name,
    is_journal,
    read_journal,
    run_folder,
)
from klarm.journal.records import Bound, Checkpoint, Finish, Resume, Source, Started, Step, encode
from klarm.journal.search import opening_of, place_of, recorded_events, steps_back

__all__ = [
    "FILE_NAME",
    "Bound",
    "Checkpoint",
    "FileJournal",
    "Finish",
    "History",
    "InUseError",
    "Journal",
    "MemoryJournal",
    "Resume",
    "Source",
    "Started",
    "Step",
    "encode",
    "folder_name",
    "host_name",
    "is_journal",
    "opening_of",
    "place_of",
    "read_journal",
    "recorded_events",
    "run_folder",
    "steps_back",
]
