"""What every channel is: settings as fields, and one method that sends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.message import Message
from klarm.settings import setting

# What a service gave back that is needed to change or follow up what was sent: a thread, an id.
Receipt = dict[str, str]


class NotDelivered(Exception):
    """A message did not get through. Says why, and whether another try may help."""

    def __init__(self, reason: str, *, retry: bool, after_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason  # never with a secret in it
        self.retry = retry
        self.after_seconds = after_seconds  # what the service asked for


@dataclass(kw_only=True, repr=False)
class Channel(ABC):
    """Somewhere people are told. Subclasses are keyword-only dataclasses: fields are settings.

    `send` is called on the delivery thread, one message at a time. Retries, order and what was
    sent already are not a channel's business.
    """

    type: ClassVar[str]  # = file name = docs page: "slack"

    name: str = ""  # what the user calls it in klarm.yaml
    timeout_seconds: float = setting(10.0, "how long a service may take to answer", above=0)

    @abstractmethod
    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:
        """Deliver a message, or raise NotDelivered.

        `earlier` is the receipt of the incident's first message here, empty if there was none.
        """

    def __repr__(self) -> str:
        return f"<{self.type} channel {self.name}>"  # no setting: some are secrets
