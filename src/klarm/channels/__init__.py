"""The catalogue: every kind of channel klarm has. A new one is one file and one line here."""

from __future__ import annotations

import importlib

from klarm.channels.base import Channel

# The class by the type, which is the name of its file; loaded when a channel of it is set up.
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
