"""Health: how each channel of a run is doing, according to the recorded deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from klarm.delivery.log import Delivered
from klarm.delivery.outbox import Outbox
from klarm.delivery.silences import Verdict


class ChannelHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one channel. Numbers are numbers of incidents, not of messages."""

    channel: str
    configured: bool  # False if the channel is known only from deliveries
    last_sent: float | None  # Unix time of the last message that the channel accepted
    pending: int
    held_back: int  # by a silence
    rejected: int  # without those that somebody has acknowledged
    last_rejected: float | None  # Unix time
    reason: str  # of the last rejection, while anything is rejected


def health_of(
    outbox: Outbox,
    entries: Sequence[Delivered],
    prospects: Mapping[str, Mapping[str, Verdict]],
    configured: Sequence[str],
) -> list[ChannelHealth]:
    """Return the health of the channels that are configured now or were configured earlier."""
    names = dict.fromkeys([*configured, *(entry.channel for entry in entries)])
    return [_of(name, outbox, entries, prospects, name in configured) for name in names]


def _of(
    name: str,
    outbox: Outbox,
    entries: Sequence[Delivered],
    prospects: Mapping[str, Mapping[str, Verdict]],
    configured: bool,
) -> ChannelHealth:
    own = [entry for entry in entries if entry.channel == name]
    refused = [entry for entry in own if entry.outcome == "refused"]
    verdicts = [of[name] for of in prospects.values() if name in of]
    rejected = outbox.rejections(name)
    return ChannelHealth(
        channel=name,
        configured=configured,
        last_sent=max((entry.time for entry in own if entry.outcome == "sent"), default=None),
        pending=verdicts.count("send"),
        held_back=verdicts.count("wait"),
        rejected=rejected,
        last_rejected=max((entry.time for entry in refused), default=None),
        reason=refused[-1].reason if rejected and refused else "",
    )
