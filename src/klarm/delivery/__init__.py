"""Notifies people of the events of a run on threads beside training, once per channel.

The journal is the outbox. A second file, the deliveries, records which events were sent, so an
event is pending if it is in the journal but not in the deliveries. This survives crashes.
`outgoing` connects the parts for a run.
"""

from __future__ import annotations

from klarm.delivery import log as deliveries
from klarm.delivery import outgoing
from klarm.delivery.health import health_of
from klarm.delivery.log import Delivered
from klarm.delivery.outbox import LOCK_NAME, Outbox, last_step
from klarm.delivery.outgoing import deliver_events
from klarm.delivery.outlook import Outlook, command_to_deliver
from klarm.delivery.prospects import is_all_delivered, prospects_of
from klarm.delivery.routes import Route, Run
from klarm.delivery.silences import Silence, Verdict, parse_span, silence_in_words

__all__ = [
    "LOCK_NAME",
    "Delivered",
    "Outbox",
    "Outlook",
    "Route",
    "Run",
    "Silence",
    "Verdict",
    "command_to_deliver",
    "deliver_events",
    "deliveries",
    "health_of",
    "is_all_delivered",
    "last_step",
    "outgoing",
    "parse_span",
    "prospects_of",
    "silence_in_words",
]
