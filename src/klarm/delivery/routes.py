"""Routes: the inputs of delivery. Channels, which messages they take, and the message writer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from klarm.channels.base import Channel
from klarm.channels.message import Message
from klarm.incidents import state, why
from klarm.types import RINGING, SEVERITIES, Event, EventKind, Severity


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
    """Makes the message of an event."""

    def __call__(
        self,
        event: Event,
        run: Run,
        /,
        *,
        acknowledged_by: str = "",
        history: str = "",
        became: str = "",
        until: int | None = None,
    ) -> Message:
        """Return the message of an event. Some people may have acknowledged the incident.

        `history` and `became` describe several events that one message combines. `until` is the
        step up to which the message describes the run, if not that of the event.
        """


def is_for(route: Route, message: Message, *, notified: bool) -> bool:
    """Return whether a message goes to a channel.

    A channel that was notified of an incident is also notified of its end, even if a rollback has
    lowered the severity below what the channel takes. Events that notify nobody go only to channels
    that can edit an earlier message, or that post every update.
    """
    if message.event not in RINGING and route.channel.updates != "posts":
        return route.channel.updates == "edits" and notified
    return (notified and message.event == "resolved") or route.takes(message)


def merge_events(events: Sequence[Event]) -> Event:
    """Return one event that combines several events of an incident.

    Kind, step and reason are those of one of the events, so that they agree. Everything else is as
    the incident stands now.
    """
    if len(events) == 1:
        return events[0]
    first, last = events[0], events[-1]
    kind = _merged_kind(events)
    cause = last if kind == last.event else next(e for e in events if e.event == kind)
    return msgspec.structs.replace(
        last,
        event=kind,
        step=cause.step,
        severity=max((event.severity for event in events), key=SEVERITIES.index),
        reason=cause.reason,
        detector=cause.detector,
        rows=cause.rows,
        notified=cause.notified,
        # A run goes on before a message is sent, so people read until when this was seen.
        moved=f"{first.moved} (by step {first.step})" if first.moved else "",
        pattern=first.pattern,
        cause=first.cause,
        # The same pattern may have got worse since: a single NaN, and then more of them.
        remedy=last.remedy if last.pattern == first.pattern else first.remedy,
    )


def became_of(events: Sequence[Event]) -> str:
    """Return what became of an incident, for the title of one message about several events.

    It is empty if the kind of the combined event says it all.
    """
    first, last = state(merge_events(events)), state(events[-1])
    if first == last:
        return ""
    if events[-1].event == "ended":
        return last
    return f"{first} and {last}" if events[-1].event == "escalated" else f"{first}, now {last}"


def history_of(events: Sequence[Event]) -> str:
    """Return what happened, if one message combines several events; else an empty string."""
    if len(events) == 1:
        return ""
    return " ".join(
        f"{e.event.capitalize()} at step {e.step}: {why(e, notified=True)}" for e in events
    )


def _merged_kind(events: Sequence[Event]) -> EventKind:
    """Return the kind of a combined event: the end, or else the first kind that notifies people.

    A resolution after which the incident reopened is neither.
    """
    kinds = [event.event for event in events]
    if kinds[-1] == "resolved":
        return "resolved"
    return next((kind for kind in kinds if kind in RINGING and kind != "resolved"), kinds[-1])
