"""Routes: what delivery is given. Channels, which messages they take, and who writes those."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from klarm.channels.base import Channel
from klarm.channels.message import Message
from klarm.incidents import why
from klarm.types import RINGING, SEVERITIES, Event, EventKind, Severity


class Route(Protocol):
    """A channel, and which messages it takes."""

    @property
    def channel(self) -> Channel:
        """Where they go."""

    @property
    def repeat_after(self) -> float:
        """After how many hours people are reminded of what nobody acknowledged; never after 0."""

    @property
    def repeat_severity(self) -> Severity:
        """The least that they are reminded of."""

    def takes(self, message: Message) -> bool:
        """Return whether this is one of them."""


class Run(NamedTuple):
    """The run that an event is from."""

    name: str
    folder: Path | None  # with its journal, if it has one


class Writer(Protocol):
    """Makes the message of an event."""

    def __call__(
        self, event: Event, run: Run, /, *, acknowledged_by: str = "", history: str = ""
    ) -> Message:
        """Return what there is to say of an event, which some may know of already."""


def is_for(route: Route, message: Message, *, notified: bool) -> bool:
    """Tell whether a message goes to a channel.

    Whoever was notified of an incident is notified of its end, though after a rollback the incident
    may end as less severe than it was. What rings nobody goes where it changes what people see.
    """
    if message.event not in RINGING and route.channel.updates != "posts":
        return route.channel.updates == "edits" and notified
    return (notified and message.event == "resolved") or route.takes(message)


def merge_events(events: Sequence[Event]) -> Event:
    """Return one event that says what several of an incident do."""
    if len(events) == 1:
        return events[0]
    first, last = events[0], events[-1]
    kind = _merged_kind(events)
    cause = last if kind == last.event else next(e for e in events if e.event == kind)
    return msgspec.structs.replace(
        last,
        event=kind,
        severity=max((event.severity for event in events), key=SEVERITIES.index),
        reason=cause.reason,
        rows=cause.rows,
        notified=cause.notified,
        moved=first.moved,
        pattern=first.pattern,
        cause=first.cause,
        remedy=first.remedy,
    )


def history_of(events: Sequence[Event]) -> str:
    """Say what happened, where one message stands for several events; else nothing."""
    if len(events) == 1:
        return ""
    return " ".join(f"{e.event.capitalize()} at step {e.step}: {why(e)}" for e in events)


def _merged_kind(events: Sequence[Event]) -> EventKind:
    """Return what happened in all: its end, or else the first thing to notify people of.

    An end after which the incident is open again is neither.
    """
    kinds = [event.event for event in events]
    if kinds[-1] == "resolved":
        return "resolved"
    return next((kind for kind in kinds if kind in RINGING and kind != "resolved"), kinds[-1])
