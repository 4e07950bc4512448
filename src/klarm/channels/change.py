"""A change of an incident, as a message lists it for programs."""

from __future__ import annotations

import msgspec

from klarm.channels.text import one_line
from klarm.types import Event, EventKind, Severity
from klarm.wording import headline, why


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One of the changes that a message is about; most messages are about one.

    Everything is as it was at that step, also if the message is about later changes, too.
    """

    change_id: str = ""  # unique, and the same in every message that lists the change
    event: EventKind
    step: int
    time: float  # Unix time
    severity: Severity
    reason: str
    why: str  # the reason as a sentence
    summary: str  # the numbers, or how the incident ended


def change_of(event: Event, time: float, change_id: str = "") -> Change:
    """Return an event as a change."""
    return Change(
        change_id=change_id,
        event=event.event,
        step=event.step,
        time=time,
        severity=event.severity,
        reason=one_line(event.reason),
        why=one_line(why(event)),
        summary=one_line(headline(event)),
    )
