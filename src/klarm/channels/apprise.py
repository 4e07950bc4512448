"""Many other services, through the apprise package (`klarm[apprise]`), which addresses by URL."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from klarm.channels.base import Channel, Receipt
from klarm.channels.message import Message
from klarm.settings import ConfigError, Secret, setting

# Both log URLs, including tokens.
_LEAKING_LOGGERS = ("apprise", "urllib3.connectionpool")

_MENTION = re.compile(r"(?<!\w)@(?=\w)|<(?=[!@#])")


@dataclass(kw_only=True, repr=False)
class AppriseChannel(Channel):
    """Sends through apprise, which supports Teams, Telegram, Matrix, ntfy and many more."""

    type: ClassVar[str] = "apprise"

    url: Secret = setting(Secret(), "apprise's address of the service")

    def _check(self) -> None:
        if not self.url:
            raise ConfigError(".url must be set")
        if importlib.util.find_spec("apprise") is None:
            raise ConfigError(" needs the apprise package: pip install 'klarm[apprise]'")
        import apprise

        self._service: Any = apprise.Apprise()
        with _secrets_hidden(self):
            understood = self._service.add(self._limited(apprise))
        if not understood:
            raise ConfigError(".url is not a URL that apprise understands (it is not shown)")

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:  # noqa: ARG002
        """Send the message. apprise only returns whether that worked."""
        kind = {"warning": "warning", "critical": "failure", "good": "success"}[message.mood]
        with _secrets_hidden(self) as said:
            done = self._service.notify(
                body=_without_mentions(message.body),
                title=_without_mentions(message.title),
                notify_type=kind,
            )
        if not done:
            why = said[-1] if said else "apprise does not say why"
            raise self.not_delivered(f"apprise could not deliver: {why}", retry=True)
        return {}

    def _limited(self, apprise: Any) -> Any:
        """Return the service with klarm's timeout, applied to connecting and to reading."""
        service = apprise.Apprise.instantiate(self.url.reveal(), suppress_exceptions=True)
        if service is not None:
            service.socket_connect_timeout = service.socket_read_timeout = self.timeout_seconds
        return service or ""


def _without_mentions(text: str) -> str:
    """Return a text in which services find no mentions such as @here, which would notify people.

    >>> _without_mentions("@here <!channel> a@b.org") == "@\u200bhere <\u200b!channel> a@b.org"
    True
    """
    return _MENTION.sub("\\g<0>\u200b", text)


@contextlib.contextmanager
def _secrets_hidden(channel: Channel) -> Iterator[list[str]]:
    """Hide the channel's secrets in log messages during the block, and collect the warnings."""
    said: list[str] = []

    def clean(record: logging.LogRecord) -> bool:
        record.msg, record.args = channel.hide_secrets(record.getMessage()), ()
        record.exc_info = record.exc_text = None  # the text of exceptions contains URLs, too
        if record.levelno >= logging.WARNING:
            said.append(str(record.msg))
        return True

    loggers = [logging.getLogger(name) for name in _LEAKING_LOGGERS]
    for logger in loggers:
        logger.addFilter(clean)
    try:
        yield said
    finally:
        for logger in loggers:
            logger.removeFilter(clean)
