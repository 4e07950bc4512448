"""Prospects: what is pending for the channels of a run, and whether it would be sent now."""

from __future__ import annotations

from collections.abc import Sequence

from klarm.channels.message import Context, Message, message_of
from klarm.delivery.combined import merge_events
from klarm.delivery.outbox import Outbox
from klarm.delivery.routes import Route, Run, is_for
from klarm.delivery.silences import Verdict, judge
from klarm.types import Event

# By the id of the incident, then by the name of the channel.
Prospects = dict[str, dict[str, Verdict]]


def prospects_of(run: Run, routes: Sequence[Route], outbox: Outbox, time: float) -> Prospects:
    """Return the verdict for each incident and channel with pending events, without sending."""
    by_incident: dict[str, list[Event]] = {}
    for _, _, event in outbox.recorded():
        by_incident.setdefault(event.id, []).append(event)
    silences = outbox.in_force(time)
    found: Prospects = {}
    for incident, events in by_incident.items():
        for route in routes:
            name = route.channel.name
            pending = outbox.outcomes.unsettled(name, events)
            notified = outbox.outcomes.receipt(name, incident) is not None
            if not pending:
                continue
            message = _in_short(merge_events(pending), run.name)
            if is_for(route, message, notified=notified):
                found.setdefault(incident, {})[name] = judge(
                    pending,
                    notified=notified,
                    acknowledged=outbox.acknowledged,
                    silences=silences,
                )
    return found


def is_all_delivered(run: Run, routes: Sequence[Route], outbox: Outbox, time: float) -> bool:
    """Return whether nothing remains to be sent now, and no rejection is unacknowledged."""
    if any(outbox.rejections(route.channel.name) for route in routes):
        return False
    verdicts = prospects_of(run, routes, outbox, time).values()
    return not any(verdict == "send" for of in verdicts for verdict in of.values())


def _in_short(event: Event, run: str) -> Message:
    # The details that the journal adds to a message do not affect which channels take it.
    return message_of(event, Context(run=run, now=0.0))
