"""The base class of channels: settings as fields, and one method that sends."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from klarm.channels.message import Message
from klarm.settings import (
    ConfigError,
    Configurable,
    Secret,
    check_settings,
    missing_attribute,
    setting,
    settings_of,
)

_MAX_REASON, _MAX_READ = 300, 8_192
_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)

# What a channel's class must have, with an example.
REQUIRED: Mapping[str, str] = {"type": 'type: ClassVar[str] = "my_channel"'}

# What a service returned that is needed to edit or follow up a message, such as a thread or an id.
Receipt = dict[str, str]
# What a channel does with events that notify nobody (settled, reopened, ended): nothing, edit the
# message it sent before, or post them like any other event.
Updates = Literal["none", "edits", "posts"]


class NotDelivered(Exception):  # noqa: N818
    """A message was not delivered. It says why, and whether a retry may help."""

    def __init__(self, reason: str, *, retry: bool, after_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason  # without any secret
        self.retry = retry
        self.after_seconds = after_seconds  # the pause that the service asked for


@dataclass(kw_only=True, repr=False)
class Channel(Configurable, ABC):
    """A way to notify people. Subclasses are keyword-only dataclasses whose fields are settings.

    `send` is called on the delivery thread, one message at a time. Delivery handles retries, order
    and deduplication.
    """

    type: ClassVar[str]  # such as "slack"; also the name of the file and of the docs page

    name: str = ""  # the user's name for it in klarm.yaml
    timeout_seconds: float = setting(10.0, "how long a service may take to answer", above=0)

    def __post_init__(self) -> None:
        wrong = missing_attribute(type(self), REQUIRED)
        if wrong:
            raise ConfigError(wrong)
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

    def _check(self) -> None:  # optional
        """Raise ConfigError, as `.setting what is wrong`, if settings contradict each other."""

    def _check_ascii(self, *names: str) -> None:
        """Raise ConfigError for a login or token with characters that no protocol accepts."""
        for name in names:
            value = getattr(self, name)
            if not (value.reveal() if isinstance(value, Secret) else value).isascii():
                raise ConfigError(
                    f".{name} may contain only ASCII characters (what was given is not shown)"
                )

    @abstractmethod
    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:
        """Deliver a message, or raise NotDelivered.

        `earlier` merges the receipts of the incident's earlier messages on this channel, later ones
        overriding earlier ones. It is empty if there were none.
        """

    @property
    def updates(self) -> Updates:
        """What the channel does with events that notify nobody."""
        return "none"

    @property
    def to_check(self) -> str:
        """The settings to check if a service denies access, such as its URL or token."""
        return ", ".join(
            name
            for name, declared in settings_of(type(self)).items()
            if declared.kind is Secret or name == "api_url"
            if getattr(self, name) != declared.default
        )

    def hide_secrets(self, text: str) -> str:
        """Return a text without the secrets of this channel."""
        for name in settings_of(type(self)):
            value = getattr(self, name)
            if isinstance(value, Secret):
                text = value.hide_in(text)
        for private in self._private_texts():
            text = Secret(private).hide_in(text)
        return text

    def _private_texts(self) -> Iterable[str]:
        """Return the possible secrets in settings that contain more than one text."""
        return ()

    def answered_id(self, answer: object) -> str:
        """Return an id from a service's answer, or "" if it is malformed or reveals a secret.

        The id is recorded, and `klarm test-alert` prints it.
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
        return f"<{self.type} channel {self.name}>"  # without settings: some are secret
