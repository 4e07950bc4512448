"""The journal: the record of a run on disk, how it is written and how it is read."""

from __future__ import annotations

from klarm.journal.appender import InUseError
from klarm.journal.checksum import checked, sealed
from klarm.journal.commands import append_command, append_lines, new_key, read_commands, read_lines
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
from klarm.journal.identity import NewId, counting_ids, derived_id, new_id
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
    "NewId",
    "Resume",
    "Source",
    "Started",
    "Step",
    "append_command",
    "append_lines",
    "checked",
    "counting_ids",
    "derived_id",
    "encode",
    "folder_name",
    "host_name",
    "is_journal",
    "new_id",
    "new_key",
    "opening_of",
    "place_of",
    "read_commands",
    "read_journal",
    "read_lines",
    "recorded_events",
    "run_folder",
    "sealed",
    "steps_back",
]
