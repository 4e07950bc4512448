"""A heartbeat: a URL that is called while a run makes progress; if calls stop, an alarm is raised.

It is a plain GET, as Healthchecks, Dead Man's Snitch, Cronitor and Uptime Kuma expect it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.channels.base import Channel, Receipt
from klarm.channels.http import check_url, request
from klarm.channels.message import Message
from klarm.settings import ConfigError, Secret, setting


@dataclass(kw_only=True, repr=False)
class HeartbeatChannel(Channel):
    """Calls a URL. It is not notified of incidents; `delivery/heartbeat` uses it."""

    type: ClassVar[str] = "heartbeat"

    url: Secret = setting(Secret(), "URL to call")
    every_minutes: float = setting(5.0, "minutes between calls, while steps are logged", above=0)

    def _check(self) -> None:
        if not self.url:
            raise ConfigError(".url must be set")
        check_url(self.url.reveal(), "url")

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:  # noqa: ARG002
        """Call the URL, whatever the message says. `klarm test-alert` uses this."""
        self.beat()
        return {}

    def beat(self) -> None:
        """Call the URL, or raise NotDelivered."""
        request(self, "GET", self.url.reveal(), b"", {})
