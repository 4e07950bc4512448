"""Prospects: what a run still owes its channels, and what would become of it. Nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence

from klarm.channels.message import Context, Message, message_of
from klarm.delivery.mutes import Verdict, judge
from klarm.delivery.outbox import Outbox
from klarm.delivery.routes import Route, Run, is_for, together
from klarm.journal import FILE_NAME, recorded_events
from klarm.types import Event

# By incident, then by the name of the channel.
Prospects = dict[int, dict[str, Verdict]]


def prospects_of(run: Run, routes: Sequence[Route], outbox: Outbox, time: float) -> Prospects:
    """Return what becomes of the incidents that channels have yet to be sent something of."""
    if run.folder is None:
        return {}
    by_incident: dict[int, list[Event]] = {}
    for _, _, event in recorded_events(run.folder / FILE_NAME):
        by_incident.setdefault(event.incident, []).append(event)
    silences = outbox.in_force(time)
    found: Prospects = {}
    for incident, events in by_incident.items():
        for route in routes:
            name = route.channel.name
            owed = [event for event in events if not outbox.is_settled(name, event)]
            told = outbox.receipt(name, incident) is not None
            if owed and is_for(route, _in_short(together(owed), run.name), told=told):
                found.setdefault(incident, {})[name] = judge(
                    owed,
                    told=told,
                    acknowledged=outbox.acknowledged,
                    silences=silences,
                )
    return found


def _in_short(event: Event, run: str) -> Message:
    # Whether a channel takes a message does not hang on what the journal has to add to it.
    return message_of(event, Context(run=run, now=0.0))
