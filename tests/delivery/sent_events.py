"""What a run recorded that people are notified of, and what of it was sent."""

from __future__ import annotations

from pathlib import Path

from klarm.delivery import log as deliveries
from klarm.delivery.log import Delivered, Key, key_of
from klarm.delivery.outbox import Outbox
from klarm.types import RINGING


def events_of(folder: Path) -> list[Key]:
    """Return what a run recorded that people are notified of."""
    return [key_of(event) for _, _, event in Outbox(folder).recorded() if event.event in RINGING]


def sent(folder: Path, channel: str = "hook") -> list[Key]:
    """Return what a channel accepted of that."""
    return [
        entry.key
        for _, entry in deliveries.read(folder)
        if isinstance(entry, Delivered) and (entry.outcome, entry.channel) == ("sent", channel)
        if entry.event in RINGING
    ]
