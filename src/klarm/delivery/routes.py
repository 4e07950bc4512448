"""Routes: what delivery is given. Channels, which messages they take, and who writes those."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from klarm.channels.base import Channel
from klarm.channels.message import Message
from klarm.types import SEVERITIES, Event


class Route(Protocol):
    """A channel, and which messages it takes."""

    @property
    def channel(self) -> Channel:
        """Where they go."""

    def takes(self, message: Message) -> bool:
        """Return whether this is one of them."""


class Run(NamedTuple):
    """The run that an event is from."""

    name: str
    folder: Path | None  # with its journal, if it has one


class Writer(Protocol):
    """Makes the message of an event."""

    def __call__(self, event: Event, run: Run, /, *, acknowledged_by: str = "") -> Message:
        """Return what there is to say of an event, which some may know of already."""


def is_for(route: Route, message: Message, *, told: bool) -> bool:
    """Tell whether a message goes to a channel: who was told of an incident is told its end.

    After a rollback it may end as less than it was told to be.
    """
    return (told and message.event == "resolved") or route.takes(message)


def together(events: Sequence[Event]) -> Event:
    """Return one event that says what several of an incident do."""
    if len(events) == 1:
        return events[0]
    first, last = events[0], events[-1]
    return msgspec.structs.replace(
        last,
        event="resolved" if last.event == "resolved" else first.event,
        severity=max((event.severity for event in events), key=SEVERITIES.index),
        reason="; ".join(f"{e.event} at step {e.step}: {e.reason}" for e in events),
        moved=first.moved,
        pattern=first.pattern,
        cause=first.cause,
        remedy=first.remedy,
    )
