"""Everything else, through the apprise package (`klarm[apprise]`): one address, many services."""

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

# Both write addresses to the log, tokens included.
_TALKATIVE = ("apprise", "urllib3.connectionpool")

_RINGS = re.compile(r"(?<!\w)@(?=\w)|<(?=[!@#])")


@dataclass(kw_only=True, repr=False)
class AppriseChannel(Channel):
    """Hands the message to apprise, which knows Teams, Telegram, Matrix, ntfy and many more."""

    type: ClassVar[str] = "apprise"

    url: Secret = setting(Secret(), "apprise's address of the service")

    def _check(self) -> None:
        if not self.url:
            raise ConfigError(".url must be set")
        if importlib.util.find_spec("apprise") is None:
            raise ConfigError(" needs the apprise package: pip install 'klarm[apprise]'")
        import apprise

        self._service: Any = apprise.Apprise()
        with _hushed(self):
            understood = self._service.add(self._limited(apprise))
        if not understood:
            raise ConfigError(".url is no address apprise understands (it is not shown)")

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:  # noqa: ARG002
        """Have apprise send the message. It says only whether that worked."""
        kind = {"warning": "warning", "critical": "failure", "good": "success"}[message.mood]
        title = f"{'Test: ' if message.test else ''}{message.title}"
        with _hushed(self) as said:
            done = self._service.notify(
                body=_tamed(message.body), title=_tamed(title), notify_type=kind
            )
        if not done:
            why = said[-1] if said else "apprise does not say why"
            raise self.not_delivered(f"apprise could not deliver: {why}", retry=True)
        return {}

    def _limited(self, apprise: Any) -> Any:
        """Return the service with our timeouts, which apprise takes a connection and a read."""
        service = apprise.Apprise.instantiate(self.url.reveal(), suppress_exceptions=True)
        if service is not None:
            service.socket_connect_timeout = service.socket_read_timeout = self.timeout_seconds
        return service or ""


def _tamed(text: str) -> str:
    """Return a text in which no name is rung: apprise passes them on, and services look for them.

    >>> _tamed("@here <!channel> a@b.org") == "@\u200bhere <\u200b!channel> a@b.org"
    True
    """
    return _RINGS.sub("\\g<0>\u200b", text)


@contextlib.contextmanager
def _hushed(channel: Channel) -> Iterator[list[str]]:
    """Keep the channel's secrets out of what is logged meanwhile, and collect the warnings."""
    said: list[str] = []

    def clean(record: logging.LogRecord) -> bool:
        record.msg, record.args = channel.hide_secrets(record.getMessage()), ()
        record.exc_info = record.exc_text = None  # their texts hold addresses too
        if record.levelno >= logging.WARNING:
            said.append(str(record.msg))
        return True

    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    for logger in loggers:
        logger.addFilter(clean)
    try:
        yield said
    finally:
        for logger in loggers:
            logger.removeFilter(clean)
