"""Routes: which messages go to which channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from klarm.channels import Channel, channel_kind
from klarm.channels.message import Message
from klarm.config.extras import remade
from klarm.settings import Names, setting, settings_of
from klarm.types import SEVERITIES, Severity

TYPE = "type"  # the setting that says which kind of channel it is


@dataclass(frozen=True, kw_only=True)
class Route:
    """A channel, and which messages are sent to it."""

    channel: Channel
    enabled: bool = setting(True, "false switches the channel off")
    severity: str = setting("warning", "the lowest severity that is sent", choices=SEVERITIES)
    signals: Names = setting(
        Names(), "signals whose incidents are sent (empty: all); `*` is a wildcard"
    )
    runs: Names = setting(Names(), "runs whose incidents are sent (empty: all); `*` is a wildcard")
    repeat_after: float = setting(
        4.0, "hours after which an unacknowledged incident is sent again (0: never)", at_least=0
    )
    repeat_severity: Severity = setting(
        "critical", "the lowest severity that is sent again", choices=SEVERITIES
    )

    def takes(self, message: Message) -> bool:
        """Return whether a message goes to this channel.

        The severity of an incident is its highest so far, so the channel that was notified of an
        incident is also notified of its end.
        """
        if not self.enabled or message.test:
            return self.enabled
        return (
            SEVERITIES.index(message.severity) >= SEVERITIES.index(self.severity)
            and _matches(message.signal, self.signals)
            and _matches(message.run, self.runs)
        )


def route_of(name: str, values: Mapping[str, object], given: Channel | None = None) -> Route:
    """Make a channel with its route, reading its secrets; raise ConfigError if one is not there.

    `given` is the object to make it like, where a script gave one.
    """
    kind = channel_kind(str(values[TYPE])) if given is None else type(given)
    own = {key: value for key, value in values.items() if key in settings_of(kind)}
    rest = {key: value for key, value in values.items() if key in settings_of(Route)}
    named: dict[str, object] = {"name": name, **own}
    channel = kind(**named) if given is None else remade(given, named)  # type: ignore[arg-type]
    return Route(channel=channel, **rest)  # type: ignore[arg-type]


def _matches(name: str, patterns: Names) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
