"""The catalogue: every kind of channel klarm has. A new one is one file and one line here.

Other packages add theirs through entry points.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import NamedTuple

from klarm.channels.base import REQUIRED, Channel
from klarm.plugins import CHANNELS as GROUP
from klarm.plugins import PluginError, not_a_kind_of, plugins
from klarm.settings import ConfigError, missing_attribute

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

__all__ = [
    "CHANNELS",
    "Channel",
    "InstalledChannels",
    "channel_kind",
    "channel_problem",
    "installed_channels",
    "known_channels",
    "usable_channels",
]


class InstalledChannels(NamedTuple):
    """The channels of other packages."""

    kinds: dict[str, type[Channel]]
    broken: dict[str, str]  # the type of each broken one, and why it cannot be used


def known_channels() -> list[str]:
    """Return klarm's own types, then those that other packages add, usable or not."""
    return list(dict.fromkeys([*CHANNELS, *plugins(GROUP)]))


def usable_channels() -> list[str]:
    """Return the known types without those that cannot be used, so it imports the packages."""
    return [*CHANNELS, *installed_channels().kinds]


def channel_kind(type_: str) -> type[Channel]:
    """Return the class of a known type; raise ConfigError if a package's cannot be used."""
    if type_ not in CHANNELS:
        kinds, broken = installed_channels()
        if type_ in broken:
            raise ConfigError(f"the channel {type_} of {broken[type_]}")
        return kinds[type_]
    kind: type[Channel] = getattr(
        importlib.import_module(f"klarm.channels.{type_}"), CHANNELS[type_]
    )
    return kind


@cache
def installed_channels() -> InstalledChannels:
    """Import the channels of other packages, once per process."""
    kinds, broken = {}, {}
    for type_, plugin in plugins(GROUP).items():

        def problem(kind: type[Channel], type_: str = type_) -> str:
            if type_ in CHANNELS:
                return "klarm has a channel of that name"
            wrong = channel_problem(kind)
            if not wrong and kind.type != type_:
                wrong = f"the entry point is called {type_}, its channel {kind.type!r:.80}"
            return wrong

        try:
            kinds[type_] = plugin.load(Channel, problem)  # type: ignore[type-abstract]
        except PluginError as error:
            broken[type_] = str(error)
    return InstalledChannels(kinds, broken)


def channel_problem(kind: type[Channel]) -> str:
    """Return why a class cannot be used as a channel; empty if it can."""
    wrong = not_a_kind_of(Channel, kind) or missing_attribute(kind, REQUIRED)
    if not wrong and not isinstance(kind.type, str):
        wrong = f"{kind.__name__}.type must be text, got {kind.type!r:.80}"
    return wrong
