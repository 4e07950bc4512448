"""False alarms: incidents that people have marked as such, stored beside the run for tuning."""

from __future__ import annotations

import contextlib

import msgspec

from klarm.journal import checked, sealed
from klarm.store import Store

_LOG = "false_alarms"
_MAX_BYTES = 2**24  # of marks: thousands


class FalseAlarm(msgspec.Struct, tag_field="type", tag="false_alarm"):
    """The mark that an incident was a false alarm, or its removal."""

    incident: str
    time: float
    by: str
    note: str = ""
    is_marked: bool = True


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(FalseAlarm).decode


def mark(store: Store, run: str, false_alarm: FalseAlarm) -> None:
    """Append a mark to the log of a run, or raise OSError."""
    store.append(run, _LOG, sealed(_encode(false_alarm)))


def marked(store: Store, run: str) -> dict[str, FalseAlarm]:
    """Return the current marks by the id of the incident. Damaged lines are skipped."""
    found: dict[str, FalseAlarm] = {}
    for line in store.read(run, _LOG, 0, _MAX_BYTES).split(b"\n"):
        if checked(line) != "good":
            continue
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            known = _decode(line)
            found.pop(known.incident, None)
            if known.is_marked:
                found[known.incident] = known
    return found
