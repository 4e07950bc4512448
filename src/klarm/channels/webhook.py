"""A generic webhook: versioned JSON or a template, signed if there is a key."""

from __future__ import annotations

import hashlib
import hmac
import string
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from klarm.channels.base import Channel, Receipt, Updates
from klarm.channels.http import check_url, request
from klarm.channels.message import Message
from klarm.settings import ConfigError, Secret, did_you_mean, setting
from klarm.version import __version__

VERSION = 1  # of the JSON; changed fields increase it, new fields do not
_NOT_TEXT = ("fields", "curve", "changes")
_SPELLING = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


@dataclass(kw_only=True, repr=False)
class WebhookChannel(Channel):
    """Posts each message as JSON to a URL."""

    type: ClassVar[str] = "webhook"

    url: Secret = setting(Secret(), "URL to post to")
    signing_key: Secret = setting(Secret(), "key of the HMAC-SHA256 signature; empty: unsigned")
    bearer_token: Secret = setting(Secret(), "sent as `Authorization: Bearer`; empty: not sent")
    template: str = setting(
        "", "JSON to send instead, with $title, $body, $run ... in its texts", private=True
    )

    def _check(self) -> None:
        self._template: Any = None
        if not self.url:
            raise ConfigError(".url must be set")
        check_url(self.url.reveal(), "url", login_goes="; a token goes into bearer_token")
        self._check_ascii("bearer_token")
        try:
            self._template = msgspec.json.decode(self.template) if self.template else None
        except msgspec.DecodeError as error:
            raise ConfigError(f".template is not valid JSON: {error}") from None
        if self.template:
            _fill(self._template, dict.fromkeys(_PLACEHOLDERS, ""))

    def _private_texts(self) -> Iterable[str]:
        """Return the texts of the template, which may contain a token of the receiver."""
        return [text for text in _texts(self._template) if "$" not in text and len(text) >= 8]

    @property
    def updates(self) -> Updates:
        """Every event is posted: the receiver decides which ones notify people."""
        return "posts"

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:  # noqa: ARG002
        """Post the message. The receiver identifies incidents by their key."""
        content: object = webhook_payload(message)
        if self.template:
            content = _fill(self._template, webhook_payload(message))
        body = msgspec.json.encode(content)
        headers = {"Content-Type": "application/json; charset=utf-8"}
        if message.message_id:
            headers["Idempotency-Key"] = message.message_id
        if self.bearer_token:
            headers["Authorization"] = f"Bearer {self.bearer_token.reveal()}"
        if self.signing_key:
            stamp = str(int(time.time()))
            headers["Klarm-Timestamp"] = stamp
            headers["Klarm-Signature"] = f"v1={signature(self.signing_key.reveal(), stamp, body)}"
        request(self, "POST", self.url.reveal(), body, headers)
        return {}


def webhook_payload(message: Message) -> dict[str, Any]:
    """Return a message as docs/channels/webhook.md describes it."""
    return {
        "version": VERSION,
        "klarm": __version__,
        "message_id": message.message_id,
        "key": message.key,
        "run": message.run,
        "incident": message.incident,
        "id": message.id,
        "event": message.event,
        "state": message.state,
        "changes": msgspec.to_builtins(message.changes),
        "reason": message.reason,
        "why": message.why,
        "signal": message.signal,
        "severity": message.severity,
        "step": message.step,
        "started": message.started,
        "recovered": message.recovered if message.event == "resolved" else None,
        "time": message.time,
        "title": message.title,
        "summary": message.summary,
        "body": message.body,
        "fields": message.fields,
        "metric": message.metric,
        "sparkline": message.sparkline,
        "curve": [[step, _SPELLING.get(repr(value), value)] for step, value in message.curve],
        "link": message.link,
        "repeat": message.repeat,
        "test": message.test,
    }


def signature(key: str, timestamp: str, body: bytes) -> str:
    """Return the HMAC-SHA256 of `timestamp.body`, in hexadecimal."""
    return hmac.new(key.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


_PLACEHOLDERS = [
    name
    for name in webhook_payload(
        Message(
            run="",
            incident=0,
            event="opened",
            signal="",
            severity="warning",
            step=0,
            title="",
            body="",
        )
    )
    if name not in _NOT_TEXT
]


def _texts(part: Any) -> Iterator[str]:
    """Yield the texts of a template, without its keys."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict | list):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _texts(inner)


def _fill(part: Any, values: Mapping[str, Any]) -> Any:
    """Fill the placeholders of a parsed template, so that the result is always valid JSON."""
    if isinstance(part, dict):
        return {key: _fill(inner, values) for key, inner in part.items()}
    if isinstance(part, list):
        return [_fill(inner, values) for inner in part]
    if not isinstance(part, str):
        return part
    if part[:1] == "$" and part[1:] in values:
        return values[part[1:]]  # a number stays a number
    try:
        return string.Template(part).substitute(values)
    except KeyError as error:
        name, known = str(error.args[0]), f"; known: {', '.join(_PLACEHOLDERS)}"
        if name in _NOT_TEXT:
            raise ConfigError(f".template: ${name} is neither text nor a number{known}") from None
        hint = did_you_mean(name, _PLACEHOLDERS) or known
        raise ConfigError(f".template: ${name} is unknown{hint}") from None
    except ValueError:
        raise ConfigError(
            f".template: write $$ for a $ that is not a placeholder: {part!r}"
        ) from None
