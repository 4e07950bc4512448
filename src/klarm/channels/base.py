"""What every channel is: settings as fields, and one method that sends."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from klarm.channels.message import Message
from klarm.settings import ConfigError, Secret, check_settings, setting, settings_of

_MAX_REASON, _MAX_READ = 300, 8_192
_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)

# What a service gave back that is needed to change or follow up what was sent: a thread, an id.
Receipt = dict[str, str]
# What a channel does with events that ring nobody (settled, reopened, ended): it does nothing, it
# edits what it sent before, or it posts them like any other.
Updates = Literal["none", "edits", "posts"]


class NotDelivered(Exception):  # noqa: N818
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

    def __post_init__(self) -> None:
        where = f"channels.{self.name or self.type}"
        check_settings(self, where)
        for name in settings_of(type(self)):
            value = getattr(self, name)
            if isinstance(value, Secret):
                try:
                    fetched = value.fetched()
                except ConfigError as error:
                    raise ConfigError(f"{where}.{name} {error}") from None
                if not fetched.reveal().isprintable():
                    raise ConfigError(
                        f"{where}.{name} must be one line of text (what was given is not shown)"
                    )
                setattr(self, name, fetched)
        try:
            self._check()
        except ConfigError as error:
            raise ConfigError(f"{where}{error}") from None

    def _check(self) -> None:  # noqa: B027  # most have nothing to add
        """Raise ConfigError, as `.setting what is wrong`, where settings do not go together."""

    def _check_ascii(self, *names: str) -> None:
        """Raise ConfigError for a login or token with characters that no protocol takes there."""
        for name in names:
            value = getattr(self, name)
            if not (value.reveal() if isinstance(value, Secret) else value).isascii():
                raise ConfigError(f".{name} may hold ASCII only (what was given is not shown)")

    @abstractmethod
    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:
        """Deliver a message, or raise NotDelivered.

        `earlier` is what was returned for the incident's earlier messages here, the latest on top;
        empty if there was none.
        """

    @property
    def updates(self) -> Updates:
        """What it does with events that ring nobody."""
        return "none"

    @property
    def to_check(self) -> str:
        """Which settings to look at if a service does not let us in: its address, its token."""
        return ", ".join(
            name
            for name, declared in settings_of(type(self)).items()
            if declared.kind is Secret or name == "api_url"
            if getattr(self, name) != declared.default
        )

    def hide_secrets(self, text: str) -> str:
        """Return a text that may come from anywhere without the secrets of this channel."""
        for name in settings_of(type(self)):
            value = getattr(self, name)
            if isinstance(value, Secret):
                text = value.hide_in(text)
        for private in self._private_texts():
            text = Secret(private).hide_in(text)
        return text

    def _private_texts(self) -> Iterable[str]:
        """Return what may be a secret in a setting that holds more than one text."""
        return ()

    def answered_id(self, answer: object) -> str:
        """Return an id that a service gave; nothing if it is no plain id, or gives a secret away.

        It is recorded, and printed by `klarm test-alert`.
        """
        text = str(answer) if isinstance(answer, str) or type(answer) is int else ""
        return text if _ID.fullmatch(text) and self.hide_secrets(text) == text else ""

    def not_delivered(
        self, reason: str, *, retry: bool, after_seconds: float | None = None
    ) -> NotDelivered:
        """Return the failure to raise, its reason on one line, short and without secrets."""
        hidden = self.hide_secrets(reason[:_MAX_READ])
        printable = "".join(c if c.isprintable() else " " for c in hidden)
        line = " ".join(printable.split())
        return NotDelivered(line[:_MAX_REASON], retry=retry, after_seconds=after_seconds)

    def __repr__(self) -> str:
        return f"<{self.type} channel {self.name}>"  # no setting: some are secrets
