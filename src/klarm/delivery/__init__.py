"""Telling people of a run's events, beside the training: once a channel, whatever dies.

The journal is the outbox. What was sent is written to the deliveries next to it, and what is owed
is the one less the other. `outgoing` puts it together for a run.
"""

from __future__ import annotations

from klarm.delivery import log as deliveries
from klarm.delivery import outgoing
from klarm.delivery.log import Acknowledged, Delivered, Entry, Silenced, Unsilenced
from klarm.delivery.mutes import Verdict, silence_in_words
from klarm.delivery.outbox import Outbox, last_step
from klarm.delivery.outgoing import deliver_events
from klarm.delivery.outlook import Outlook, command_to_deliver
from klarm.delivery.prospects import prospects_of
from klarm.delivery.routes import Route, Run

__all__ = [
    "Acknowledged",
    "Delivered",
    "Entry",
    "Outbox",
    "Outlook",
    "Route",
    "Run",
    "Silenced",
    "Unsilenced",
    "Verdict",
    "command_to_deliver",
    "deliver_events",
    "deliveries",
    "last_step",
    "outgoing",
    "prospects_of",
    "silence_in_words",
]
