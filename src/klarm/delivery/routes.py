"""Routes: the inputs of delivery. Channels, which messages they take, and the message writer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from klarm.channels.base import Channel
from klarm.channels.message import Message
from klarm.types import RINGING, Event, Severity


class Route(Protocol):
    """A channel, and which messages it takes."""

    @property
    def channel(self) -> Channel:
        """The channel."""

    @property
    def repeat_after(self) -> float:
        """The hours after which unacknowledged incidents are sent again; 0 means never."""

    @property
    def repeat_severity(self) -> Severity:
        """The lowest severity of incidents that are sent again."""

    def takes(self, message: Message) -> bool:
        """Return whether a message is meant for the channel."""


class Run(NamedTuple):
    """The run that an event belongs to."""

    name: str
    folder: Path | None  # the folder with its journal, if the run is recorded


class Writer(Protocol):
    """Makes the message of an incident's events."""

    def __call__(
        self, events: Sequence[Event], run: Run, /, *, acknowledged_by: str = ""
    ) -> Message:
        """Return one message about events of an incident, which some people may know of."""


def is_for(route: Route, message: Message, *, notified: bool) -> bool:
    """Return whether a message goes to a channel.

    A channel that was notified of an incident is also notified of its end, even if a rollback has
    lowered the severity below what the channel takes. Events that notify nobody go only to channels
    that can edit an earlier message, or that post every update.
    """
    if message.event not in RINGING and route.channel.updates != "posts":
        return route.channel.updates == "edits" and notified
    return (notified and message.event == "resolved") or route.takes(message)
