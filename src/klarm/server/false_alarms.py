"""False alarms: incidents that people have marked as such, stored beside the run for tuning."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from klarm.journal import append_lines, checked, read_lines, sealed

FILE_NAME = "false_alarms.jsonl"


class FalseAlarm(msgspec.Struct, tag_field="type", tag="false_alarm"):
    """The mark that an incident was a false alarm, or its removal."""

    incident: str
    time: float
    by: str
    note: str = ""
    is_marked: bool = True


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(FalseAlarm).decode


def mark(folder: Path, false_alarm: FalseAlarm) -> None:
    """Append a mark to the file of a run, or raise OSError."""
    append_lines(folder / FILE_NAME, sealed(_encode(false_alarm)))


def marked(folder: Path) -> dict[str, FalseAlarm]:
    """Return the current marks by the id of the incident. Damaged lines are skipped."""
    found: dict[str, FalseAlarm] = {}
    for _, line in read_lines(folder / FILE_NAME):
        if checked(line) != "good":
            continue
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            known = _decode(line)
            found.pop(known.incident, None)
            if known.is_marked:
                found[known.incident] = known
    return found
