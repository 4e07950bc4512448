"""Slack: an incoming webhook, or a bot that replies in threads, edits and shows the curve."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlencode, urlsplit

from klarm.channels.base import Channel, NotDelivered, Receipt, Updates
from klarm.channels.curve import FILE_NAME, curve_png
from klarm.channels.http import check_url, post_json, request
from klarm.channels.message import Message
from klarm.channels.text import fit, is_link
from klarm.settings import ConfigError, Secret, setting
from klarm.types import RINGING

# https://docs.slack.dev/reference/block-kit/blocks and /reference/methods/chat.postMessage
MAX_TEXT, MAX_HEADER, MAX_SECTION = 40_000, 150, 3_000
MAX_FIELDS, MAX_FIELD, MAX_LINK = 10, 2_000, 3_000
_MAX_SHOWN = 20  # fields
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MARKS = {"warning": "🟠", "critical": "🔴", "good": "✅"}
# Temporary errors of Slack; all others need to be fixed by the user.
_TEMPORARY = {
    "fatal_error",
    "internal_error",
    "rate_limited",
    "ratelimited",
    "request_timeout",
    "service_unavailable",
}
# The first message was deleted, or the workspace no longer lets bots edit it.
_CANNOT_EDIT = {"cant_update_message", "edit_window_closed", "message_not_found"}
_HINTS = {
    **dict.fromkeys(
        ("account_inactive", "invalid_auth", "not_authed", "token_expired", "token_revoked"),
        "check bot_token",
    ),
    "not_in_channel": "invite the bot to the channel",
    "channel_not_found": "give the channel's id, and invite the bot if it is private",
    "missing_scope": "the bot needs chat:write, and files:write for the curve",
}


@dataclass(kw_only=True, repr=False)
class SlackChannel(Channel):
    """Posts to Slack.

    A bot replies in the thread of the incident's first message, and keeps that message up to date.
    """

    type: ClassVar[str] = "slack"

    webhook_url: Secret = setting(Secret(), "URL of an incoming webhook")
    bot_token: Secret = setting(Secret(), "token of a bot (xoxb-...), instead of a webhook")
    channel: str = setting("", "with a bot: id of the channel to post to")
    api_url: str = setting("https://slack.com/api", "URL of Slack's Web API")

    def _check(self) -> None:
        if not (self.webhook_url or self.bot_token):
            raise ConfigError(" needs webhook_url, or bot_token and channel")
        if self.webhook_url and self.bot_token:
            raise ConfigError(" has webhook_url and bot_token; it needs only one of them")
        if self.bot_token and not self.channel:
            raise ConfigError(".channel must be set if there is a bot_token")
        if self.webhook_url:
            check_url(self.webhook_url.reveal(), "webhook_url")
        self._check_ascii("bot_token")
        check_url(self.api_url, "api_url")

    @property
    def updates(self) -> Updates:
        """A bot can edit what it posted; a webhook cannot."""
        return "edits" if self.bot_token else "none"

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:
        """Post the message. A bot replies in the thread of the first message, or edits that."""
        payload = slack_payload(message)
        if self.webhook_url:
            answer = post_json(self, self.webhook_url.reveal(), payload)
            if answer.body.lstrip().startswith(b"<"):
                raise self.not_delivered("the answer is a web page, not from Slack", retry=True)
            return {}
        thread = earlier.get("ts", "")
        payload["channel"] = earlier.get("channel") or self.channel
        if message.event not in RINGING:
            self._edit(payload, thread)
            return dict(earlier)
        if thread:
            # Also shown in the channel, because people may not open the thread.
            payload |= {"thread_ts": thread, "reply_broadcast": True}
        posted = self._call("chat.postMessage", payload)
        receipt = {
            "ts": thread or self.answered_id(posted.get("ts")),
            "channel": self.answered_id(posted.get("channel")) or str(payload["channel"]),
        }
        with contextlib.suppress(NotDelivered):  # the message was posted; the rest is optional
            self._edit(slack_payload(message) | {"channel": receipt["channel"]}, thread)
            self._upload_curve(message, receipt)
        return receipt

    def _edit(self, payload: Mapping[str, Any], first: str) -> None:
        """Replace the content of the incident's first message, if it still exists."""
        if first:
            content = {"channel": payload["channel"], "ts": first}
            content |= {"text": payload["text"], "blocks": payload["blocks"]}
            self._call("chat.update", content, accept=_CANNOT_EDIT)

    def _upload_curve(self, message: Message, receipt: Receipt) -> None:
        image = curve_png(message) if message.event != "resolved" else None
        if image is None or not receipt["ts"]:
            return
        form = {"filename": FILE_NAME, "length": str(len(image))}
        ticket = self._call("files.getUploadURLExternal", form)
        upload_url = str(ticket.get("upload_url", ""))
        if not self._belongs_to_slack(upload_url):
            raise self.not_delivered("the upload URL does not belong to Slack", retry=False)
        request(self, "POST", upload_url, image, {"Content-Type": "application/octet-stream"})
        self._call(
            "files.completeUploadExternal",
            {
                "files": [{"id": ticket.get("file_id"), "title": message.metric}],
                "channel_id": receipt["channel"],
                "thread_ts": receipt["ts"],
            },
        )

    def _belongs_to_slack(self, address: str) -> bool:
        """Return whether a URL is on the host of the API or a subdomain, as files.slack.com is."""
        try:
            api, there = urlsplit(self.api_url), urlsplit(address)
            same = (there.scheme, there.hostname, there.port) == (
                api.scheme,
                api.hostname,
                api.port,
            )
            below = str(there.hostname).endswith(f".{api.hostname}") and there.port in (None, 443)
        except ValueError:
            return False
        return same or (below and there.scheme == "https")

    def _call(
        self, method: str, content: Mapping[str, Any], *, accept: Collection[str] = ()
    ) -> dict[str, Any]:
        """Call the Web API, which answers 200 even to errors. Errors in `accept` are ignored."""
        url = f"{self.api_url.rstrip('/')}/{method}"
        access = {"Authorization": f"Bearer {self.bot_token.reveal()}"}
        if method == "files.getUploadURLExternal":  # it does not accept JSON
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            answer = request(self, "POST", url, urlencode(content).encode(), {**kind, **access})
        else:
            answer = post_json(self, url, content, access)
        said = answer.json(self)
        error = str(said.get("error", "no reason"))
        if said.get("ok") is not True and error not in accept:
            hint = f" ({_HINTS[error]})" if error in _HINTS else ""
            raise self.not_delivered(
                f"Slack refused {method}: {error}{hint}", retry=error in _TEMPORARY
            )
        return said


def slack_payload(message: Message) -> dict[str, Any]:
    """Return a message as blocks, with the text that notifications show."""
    title = f"{_MARKS[message.mood]} {message.title}"
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(_fit(title, MAX_HEADER))}]
    if message.summary or not message.fields:
        text = _fit(message.summary or message.body, MAX_SECTION)
        blocks.append({"type": "section", "text": _plain(text or "–")})
    if message.sparkline:
        drawn = message.drawn.replace("`", "'")
        marked = f"```{_fit(drawn, MAX_SECTION - 6)}```"
        blocks.append({"type": "section", "text": _marked(marked)})
    shown = [(name, value) for name, value in message.fields.items() if name and value]
    for at in range(0, min(len(shown), _MAX_SHOWN), MAX_FIELDS // 2):
        # Two columns: names are bold, and values are plain text, so that no markup in them works.
        columns = [
            column
            for name, value in shown[at : at + MAX_FIELDS // 2]
            for column in (
                _marked(f"*{_fit(name.replace('*', ' '), MAX_FIELD - 2)}*"),
                _plain(_fit(value, MAX_FIELD)),
            )
        ]
        blocks.append({"type": "section", "fields": columns})
    if message.link:
        text = _fit(message.link, MAX_LINK)
        # Slack turns a bare URL into a link, and nothing else can be hidden in it.
        link = {"type": "mrkdwn", "text": text} if is_link(message.link) else _plain(text)
        blocks.append({"type": "section", "text": link})
    return {
        "text": _fit(f"{title}\n{message.summary}", MAX_TEXT),
        "mrkdwn": False,
        "blocks": blocks,
        "unfurl_links": False,
        "unfurl_media": False,
    }


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def _marked(text: str) -> dict[str, Any]:
    # Without "verbatim", Slack would look for mentions and notify those people.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _fit(text: str, limit: int) -> str:
    return fit(text, limit, lambda character: _ENTITIES.get(character, character))
