"""An incident's event for tests, of which each test names only what it is about."""

from __future__ import annotations

from typing import Any

from klarm.types import Event, EventKind

_OPENED = Event(
    event="opened",
    incident=1,
    signal="kl",
    severity="warning",
    step=17,
    started=12,
    detectors=["kl_explosion"],
    peak=9.0,
    reason="confirmed",
    message="KL is high.",
    recommendation="Look.",
)


def example_event(kind: EventKind = "opened", **fields: Any) -> Event:
    """Return an event of incident 1 on KL, with other fields where they are given."""
    given = {name: getattr(_OPENED, name) for name in Event.__struct_fields__}
    return Event(**{**given, "event": kind, **fields})
