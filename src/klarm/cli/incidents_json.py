"""`klarm incidents --format json`: incidents for programs, with the state of every channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from klarm.delivery import Delivered, Outbox, Silence, Verdict, health_of
from klarm.incidents import subject_of
from klarm.runs import RunView
from klarm.text import as_sentence

VERSION = 1  # version of this JSON; new fields do not change it


def as_json(
    view: RunView,
    outbox: Outbox,
    ahead: Mapping[str, Mapping[str, Verdict]],
    silences: Sequence[Silence],
    *,
    channels: Sequence[str],
    damaged: Sequence[str],
) -> object:
    """Return the incidents and channels of a run, as described in docs/delivery.md."""
    entries = view.deliveries
    known = [
        {
            **record.as_dict(),
            "subject": subject_of(record),
            "peak": record.last.peak,
            "acknowledged_by": outbox.acknowledged.get(record.id, []),
            "notified": _notified(record.id, entries, ahead.get(record.id, {})),
        }
        for record in view.incidents.values()
    ]
    known_of_run = msgspec.json.encode(
        {
            "version": VERSION,
            "run": view.name,
            "live": view.trains,
            "finished": view.fold.finished,
            "last_step": view.fold.last_step,
            "not_watched": as_sentence(view.unknown_because),
            "incidents": known,
            "silences": [silence._asdict() for silence in silences],
            "channels": health_of(outbox, entries, ahead, channels),
            "dropped": list(damaged),
        }
    )
    return msgspec.json.decode(known_of_run)  # plain types, with null for non-finite numbers


def _notified(
    incident: str, entries: Sequence[Delivered], ahead: Mapping[str, Verdict]
) -> dict[str, dict[str, object]]:
    """Return for each channel the last event that was sent, and the state of the others."""
    found: dict[str, dict[str, object]] = {}
    for entry in entries:
        if entry.id == incident:
            of = found.setdefault(entry.channel, _nothing())
            of["outcome"] = "rejected" if entry.outcome == "refused" else entry.outcome
            if entry.outcome == "sent":
                of |= {"event": entry.event, "step": entry.step, "time": entry.time}
    for channel, verdict in ahead.items():
        found.setdefault(channel, _nothing())["rest"] = _REST[verdict]
    return found


def _nothing() -> dict[str, object]:
    return {"outcome": None, "event": None, "step": None, "time": None, "rest": None}


_REST: Mapping[Verdict, str] = {
    "send": "pending",
    "wait": "held back",
    "silenced": "silenced",
    "acknowledged": "acknowledged",
}
