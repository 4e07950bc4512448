"""Discord: a webhook that keeps the first message of an incident up to date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec

from klarm.channels.base import Channel, Receipt, Updates
from klarm.channels.curve import FILE_NAME, curve_png
from klarm.channels.http import Answer, check_url, request
from klarm.channels.message import Message
from klarm.channels.text import fit, is_link, width
from klarm.settings import ConfigError, Secret, setting
from klarm.types import RINGING

# https://discord.com/developers/docs/resources/message#embed-object-embed-limits
MAX_CONTENT, MAX_TITLE, MAX_DESCRIPTION = 2_000, 256, 4_096
MAX_FIELDS, MAX_NAME, MAX_VALUE, MAX_TOTAL = 25, 256, 1_024, 6_000
_MARKUP = set("\\*_~`|<>#[]")
_COLOURS = {"warning": 0xD98E04, "critical": 0xC62828, "good": 0x2E7D32}
# Mentions in a message notify nobody.
_NO_MENTIONS: dict[str, list[str]] = {"parse": []}
_BOUNDARY = "klarm-4d2b8f0c7a1e"


@dataclass(kw_only=True, repr=False)
class DiscordChannel(Channel):
    """Posts an embed, and edits it whenever the incident changes.

    An edit notifies nobody, so events that need attention are also posted as one new line.
    """

    type: ClassVar[str] = "discord"

    webhook_url: Secret = setting(Secret(), "URL of the channel's webhook")

    def _check(self) -> None:
        if not self.webhook_url:
            raise ConfigError(".webhook_url must be set")
        check_url(self.webhook_url.reveal(), "webhook_url")

    @property
    def updates(self) -> Updates:
        """The first message can be edited by its id."""
        return "edits"

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:
        """Post the message, or edit the earlier one if it is still there."""
        payload, image = discord_payload(message), curve_png(message)
        if image is not None:
            payload["embeds"][0]["image"] = {"url": f"attachment://{FILE_NAME}"}
        # On an edit, this also removes the previous picture.
        payload["attachments"] = [] if image is None else [{"id": 0, "filename": FILE_NAME}]
        known = earlier.get("id", "")
        if known:
            answer = self._call("PATCH", f"/messages/{quote(known, safe='')}", payload, image)
            if answer.status != 404:
                stays_bad = message.event == "resolved" and not message.over
                if message.event == "escalated" or stays_bad or message.repeat:
                    line = fit(message.title, MAX_CONTENT, _escape)
                    self._call("POST", "", {"content": line, "allowed_mentions": _NO_MENTIONS})
                return {"id": known}
        if message.event not in RINGING:
            return dict(earlier)  # a new message would notify people
        answer = self._call("POST", "", payload, image)
        if answer.status == 404:
            reason = f"Discord does not know this webhook (404, check {self.to_check})"
            raise self.not_delivered(reason, retry=False)
        return {"id": self.answered_id(answer.json(self).get("id"))}

    def _call(
        self, method: str, path: str, payload: Mapping[str, Any], image: bytes | None = None
    ) -> Answer:
        address = urlsplit(self.webhook_url.reveal())
        query = urlencode([*parse_qsl(address.query), ("wait", "true")])  # keeps a thread_id
        url = urlunsplit(address._replace(path=address.path.rstrip("/") + path, query=query))
        body = msgspec.json.encode(payload)
        kind = "application/json"
        if image is not None:
            body, kind = _multipart(body, image), f"multipart/form-data; boundary={_BOUNDARY}"
        return request(self, method, url, body, {"Content-Type": kind}, accept=(404,))


def discord_payload(message: Message) -> dict[str, Any]:
    """Return a message as one embed."""
    description = fit(message.summary or message.body, MAX_DESCRIPTION - 200, _escape)
    if message.sparkline:
        drawn = message.drawn.replace("`", "'")
        description += f"\n```\n{fit(drawn, 150)}\n```"
    embed: dict[str, Any] = {
        "title": fit(message.title, MAX_TITLE, _escape),
        "description": description,
        "color": _COLOURS[message.mood],
        "fields": [],
    }
    fields = dict(message.fields)
    # Discord rejects the whole message if the host of the URL has no dot, such as localhost.
    if is_link(message.link) and "." in str(urlsplit(message.link).hostname).strip("."):
        embed["url"] = message.link
    else:
        fields["Link"] = message.link
    left = MAX_TOTAL - width(embed["title"]) - width(description)
    shown = [(n, v) for n, v in fields.items() if n.strip() and v.strip()]
    for name, value in shown[:MAX_FIELDS]:
        field = {
            "name": fit(name, MAX_NAME, _escape),
            "value": fit(value, MAX_VALUE, _escape),
            "inline": False,
        }
        left -= width(field["name"]) + width(field["value"])  # type: ignore[arg-type]
        if left < 0:
            break
        embed["fields"].append(field)
    return {"embeds": [embed], "allowed_mentions": _NO_MENTIONS}


def _escape(character: str) -> str:
    return f"\\{character}" if character in _MARKUP else character


def _multipart(payload: bytes, image: bytes) -> bytes:
    head = f"--{_BOUNDARY}\r\nContent-Disposition: form-data; name="
    return b"".join(
        (
            f'{head}"payload_json"\r\nContent-Type: application/json\r\n\r\n'.encode(),
            payload,
            f'\r\n{head}"files[0]"; filename="{FILE_NAME}"\r\n'.encode(),
            b"Content-Type: image/png\r\n\r\n",
            image,
            f"\r\n--{_BOUNDARY}--\r\n".encode(),
        )
    )
