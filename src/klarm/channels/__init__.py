"""The catalogue of all channel types. A new type is one file and one line here."""

from __future__ import annotations

import importlib

from klarm.channels.base import Channel

# Maps each type, which is also the name of its file, to its class. It is imported when needed.
CHANNELS: dict[str, str] = {
    "slack": "SlackChannel",
    "discord": "DiscordChannel",
    "email": "EmailChannel",
    "pagerduty": "PagerDutyChannel",
    "webhook": "WebhookChannel",
    "desktop": "DesktopChannel",
    "apprise": "AppriseChannel",
    "heartbeat": "HeartbeatChannel",
}

__all__ = ["CHANNELS", "Channel", "channel_kind"]


def channel_kind(type_: str) -> type[Channel]:
    """Return the class of a type that is in the catalogue."""
    kind: type[Channel] = getattr(
        importlib.import_module(f"klarm.channels.{type_}"), CHANNELS[type_]
    )
    return kind
