"""The journal: the record of a run on disk, how it is written and how it is read."""

from __future__ import annotations

from klarm.journal.checksum import checked, sealed
from klarm.journal.closing import close_at_rest, record_command
from klarm.journal.commands import FILE_NAME as COMMANDS_FILE
from klarm.journal.commands import (
    append_alone,
    append_command,
    append_lines,
    damage_at,
    new_key,
    read_commands,
    read_lines,
)
from klarm.journal.crash import ended_by_crash, record_crash
from klarm.journal.file import (
    FILE_NAME,
    FileJournal,
    Journal,
    MemoryJournal,
    folder_name,
    host_name,
    run_folder,
)
from klarm.journal.fold import Fold, SavedFold
from klarm.journal.health import Activity, RunHealth, activity_of, rank_of, run_health, worst_of
from klarm.journal.identity import (
    NewId,
    counting_ids,
    new_id,
    recorded_ids,
    unused_ids,
)
from klarm.journal.incident import (
    STATE_AFTER,
    IncidentRecord,
    RecordedState,
    acknowledged_after,
    add_event,
)
from klarm.journal.lines import Damage, FormatError, Stored
from klarm.journal.locks import Claim, InUseError, claim, is_surely_free, lock_of
from klarm.journal.reading import head_of, is_journal, read_journal, record_at
from klarm.journal.recent import RecentJournal
from klarm.journal.records import (
    DETACHED,
    FORMAT,
    Bound,
    Checkpoint,
    Finish,
    Record,
    Resume,
    Source,
    Started,
    Step,
    encode,
    spell_non_finite,
)
from klarm.journal.rollbacks import Limit, limits_between
from klarm.journal.rows import History, LateRow, Row, history, with_commands
from klarm.journal.search import (
    opening_of,
    place_of,
    recorded_events,
    resume_lines,
    steps_back,
    times_of,
)
from klarm.journal.steps import AnyStep, steps_of

__all__ = [
    "COMMANDS_FILE",
    "DETACHED",
    "FILE_NAME",
    "FORMAT",
    "STATE_AFTER",
    "Activity",
    "AnyStep",
    "Bound",
    "Checkpoint",
    "Claim",
    "Damage",
    "FileJournal",
    "Finish",
    "Fold",
    "FormatError",
    "History",
    "InUseError",
    "IncidentRecord",
    "Journal",
    "LateRow",
    "Limit",
    "MemoryJournal",
    "NewId",
    "RecentJournal",
    "Record",
    "RecordedState",
    "Resume",
    "Row",
    "RunHealth",
    "SavedFold",
    "Source",
    "Started",
    "Step",
    "Stored",
    "acknowledged_after",
    "activity_of",
    "add_event",
    "append_alone",
    "append_command",
    "append_lines",
    "checked",
    "claim",
    "close_at_rest",
    "counting_ids",
    "damage_at",
    "encode",
    "ended_by_crash",
    "folder_name",
    "head_of",
    "history",
    "host_name",
    "is_journal",
    "is_surely_free",
    "limits_between",
    "lock_of",
    "new_id",
    "new_key",
    "opening_of",
    "place_of",
    "rank_of",
    "read_commands",
    "read_journal",
    "read_lines",
    "record_at",
    "record_command",
    "record_crash",
    "recorded_events",
    "recorded_ids",
    "resume_lines",
    "run_folder",
    "run_health",
    "sealed",
    "spell_non_finite",
    "steps_back",
    "steps_of",
    "times_of",
    "unused_ids",
    "with_commands",
    "worst_of",
]
