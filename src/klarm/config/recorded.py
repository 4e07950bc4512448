"""The channels of a run as its journal records them: which messages each takes, but no secrets."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from klarm.channels import CHANNELS, Channel, channel_kind
from klarm.channels.base import Receipt, Updates
from klarm.channels.message import Message
from klarm.config.channels import SECTION
from klarm.config.routes import TYPE, Route
from klarm.settings import ConfigError, settings_of

_HEARTBEAT = "heartbeat"  # it is not notified of incidents


@dataclass(kw_only=True, repr=False)
class RecordedChannel(Channel):
    """Stands for a channel of a recorded run. It cannot send: a journal holds no secrets."""

    type: ClassVar[str] = "recorded"

    updates_: Updates = "none"

    @property
    def updates(self) -> Updates:
        """What the channel does with events that notify nobody."""
        return self.updates_

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:  # noqa: ARG002
        """Raise NotDelivered."""
        raise self.not_delivered("only its record is known", retry=False)


def recorded_routes(config: Mapping[str, Any]) -> list[Route]:
    """Return the channels that notified people, given the configuration in a journal.

    A value that this version of klarm cannot read counts as the default.
    """
    section = config.get(SECTION)
    return [
        _route(name, values)
        for name, values in (section.items() if isinstance(section, dict) else ())
        if isinstance(values, dict)
        if values.get(TYPE) != _HEARTBEAT and values.get("enabled") is not False
    ]


def _route(name: str, values: Mapping[str, Any]) -> Route:
    read: dict[str, Any] = {}
    for key, declared in settings_of(Route).items():
        with suppress(ConfigError):
            read[key] = declared.read(values.get(key, declared.default))
    channel = RecordedChannel(name=name, updates_=_updates_of(values))
    return Route(channel=channel, **read)


def _updates_of(values: Mapping[str, Any]) -> Updates:
    type_ = values.get(TYPE)
    if type_ not in CHANNELS:  # made by somebody else: its class may need more than settings
        return "none"
    kind = channel_kind(type_)
    blank = kind.__new__(kind)  # without its checks, which would ask for the secrets
    for key in settings_of(kind):
        setattr(blank, key, values.get(key))
    return blank.updates
