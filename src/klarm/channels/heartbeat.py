"""A heartbeat: an address that is called while a run makes progress, so that silence is noticed.

As Healthchecks, Dead Man's Snitch, Cronitor and Uptime Kuma want it: a plain GET.
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
    """Calls an address. It is told of no incident; `delivery/heartbeat` calls it."""

    type: ClassVar[str] = "heartbeat"

    url: Secret = setting(Secret(), "address to call")
    every_minutes: float = setting(5.0, "how often, if steps were logged since", above=0)

    def _check(self) -> None:
        if not self.url:
            raise ConfigError(".url must be set")
        check_url(self.url.reveal(), "url")

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:  # noqa: ARG002
        """Call the address, whatever the message says: `klarm test-alert` tries it so."""
        self.beat()
        return {}

    def beat(self) -> None:
        """Call the address, or raise NotDelivered."""
        request(self, "GET", self.url.reveal(), b"", {})
