"""A run with the worst of names: what arrives keeps the limits, rings nobody and is readable."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from aiosmtpd.controller import Controller

from klarm.channels import discord, pagerduty, slack
from klarm.channels.apprise import AppriseChannel
from klarm.channels.curve import curve_png
from klarm.channels.discord import DiscordChannel
from klarm.channels.email import EmailChannel
from klarm.channels.message import Context, Message, message_of
from klarm.channels.pagerduty import PagerDutyChannel
from klarm.channels.slack import SlackChannel
from klarm.channels.text import width
from klarm.channels.webhook import WebhookChannel
from klarm.settings.fields import Names
from klarm.settings.secret import Secret
from klarm.types import Event, Moved

NASTY = (
    "<!channel> @everyone @here <@U1> *bold* _it_ ~gone~ ||spoiler|| `code` ```block``` # head "
    "[x](http://evil.example) <b>tag</b> & \"q\" 'r' $run ${step}\r\nBcc: evil@example.org\r\n\r\n"
    "\0\x1b[2J\u202e 🔥👩‍👩‍👧 größe 学习 > quote \\ "
)
RUN = (NASTY * 100)[:10_000]


@pytest.fixture
def extreme(event: Event, context: Context) -> Message:
    """Everything that others write is nasty: the run's name, texts, a path."""
    nasty = msgspec.structs.replace(
        event,
        message=RUN,
        reason=RUN,
        recommendation=RUN,
        also=(Moved(RUN, "up"),),
        checkpoint=RUN,
        remedy=RUN,
    )
    return message_of(nasty, msgspec.structs.replace(context, run=RUN))


def test_a_title_says_what_it_is_about_however_long_the_name(extreme: Message) -> None:
    """Every channel cuts it at its end."""
    assert "kl critical, began at step 148" in extreme.title
    assert width(extreme.title) < slack.MAX_HEADER
    assert extreme.run.startswith("<!channel> @everyone")  # routes and keys see the name


def texts_of(part: Any) -> Iterator[dict[str, Any]]:
    """Return every text object of a Slack message."""
    if isinstance(part, dict):
        if isinstance(part.get("text"), str) and part.get("type") in ("plain_text", "mrkdwn"):
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from texts_of(inner)


def test_slack(service: Any, extreme: Message) -> None:
    """Names are not looked for, and no markup is obeyed but ours."""
    SlackChannel(webhook_url=Secret(f"{service.url}/x")).send(extreme, {})
    sent = service.calls[0].json
    assert sent["mrkdwn"] is False
    assert width(sent["text"]) <= slack.MAX_TEXT
    assert len(sent["blocks"]) <= 50
    assert "kl critical, began at step 148" in sent["blocks"][0]["text"]["text"]
    assert width(sent["blocks"][0]["text"]["text"]) <= slack.MAX_HEADER
    for block in sent["blocks"]:
        assert len(block.get("fields", [])) <= slack.MAX_FIELDS
        assert all(1 <= width(f["text"]) <= slack.MAX_FIELD for f in block.get("fields", []))
    raw = [sent["text"], *(text["text"] for text in texts_of(sent["blocks"]))]
    for text in raw:
        assert "<" not in text
        assert ">" not in text
        assert "&" not in re.sub("&(amp|lt|gt);", "", text)
    marked = [text for text in texts_of(sent["blocks"]) if text["type"] == "mrkdwn"]
    for text in marked:
        ours = re.fullmatch(
            r"\*[A-Z][a-z ]+\*|```kl [^`]*```|https://example.org/runs/7b", text["text"]
        )
        assert ours, text
        assert text.get("verbatim") is True or text["text"] == extreme.link


def test_slack_shows_a_link_that_is_none_as_text(service: Any, message: Message) -> None:
    """Only an address is made a link of."""
    for link in ("@here", "*x*", "javascript:alert(1)"):
        strange = msgspec.structs.replace(message, link=link)
        SlackChannel(webhook_url=Secret(f"{service.url}/x")).send(strange, {})
        assert service.calls[-1].json["blocks"][-1]["text"] == {"type": "plain_text", "text": link}


def test_discord(service: Any, extreme: Message) -> None:
    """Every character that means something there is escaped, in a new line too."""
    service.always(200, {"id": "1"})
    channel = DiscordChannel(webhook_url=Secret(f"{service.url}/x"))
    channel.send(msgspec.structs.replace(extreme, curve=[]), {})
    escalated = msgspec.structs.replace(extreme, event="escalated", curve=[])
    channel.send(escalated, {"id": "1"})
    post, _, line = (call.json for call in service.calls)
    assert post["allowed_mentions"] == line["allowed_mentions"] == {"parse": []}
    (embed,) = post["embeds"]
    assert "kl critical, began at step 148" in embed["title"]
    sent_text = [embed["title"], *(field["value"] for field in embed["fields"])]
    described, *drawn = embed["description"].split("\n```\n")
    assert len(drawn) == 1
    for text in (*sent_text, described, line["content"]):
        assert re.search(r"(?<!\\)[*_~`|<>#\[\]]", re.sub(r"\\\\", "", text)) is None
    assert width(line["content"]) <= discord.MAX_CONTENT
    assert width(embed["title"]) <= discord.MAX_TITLE
    assert width(embed["description"]) <= discord.MAX_DESCRIPTION
    assert all(width(field["value"]) <= discord.MAX_VALUE for field in embed["fields"])
    in_all = sum(width(field["name"] + field["value"]) for field in embed["fields"])
    assert in_all + width(embed["title"] + embed["description"]) <= discord.MAX_TOTAL


@pytest.mark.parametrize(
    "link", ["http://localhost:8000/r", "http://klarm:8000/", "https://", "https://a b.org/", "x"]
)
def test_discord_gets_a_link_that_it_would_refuse_as_text(
    service: Any, message: Message, link: str
) -> None:
    """It refuses the whole message for the address of a host without a dot."""
    service.always(200, {"id": "1"})
    channel = DiscordChannel(webhook_url=Secret(f"{service.url}/x"))
    channel.send(msgspec.structs.replace(message, link=link, curve=[]), {})
    (embed,) = service.calls[0].json["embeds"]
    assert "url" not in embed
    assert {"name": "Link", "value": link, "inline": False} in embed["fields"]


def test_pagerduty(service: Any, extreme: Message) -> None:
    """It shows texts as they are; what is no address is no link."""
    service.always(202, {"status": "success"})
    channel = PagerDutyChannel(routing_key=Secret("k" * 32), api_url=service.url)
    channel.send(msgspec.structs.replace(extreme, link="javascript:alert(1)"), {})
    sent = service.calls[0].json
    assert width(sent["dedup_key"]) <= pagerduty.MAX_KEY
    assert width(sent["payload"]["summary"]) <= pagerduty.MAX_SUMMARY
    assert "kl critical, began at step 148" in sent["payload"]["summary"]
    assert sent["payload"]["severity"] in ("critical", "error", "warning", "info")
    assert len(service.calls[0].body) < 512_000
    assert sent.keys().isdisjoint({"client_url", "links"})
    assert sent["payload"]["custom_details"]["Link"] == "javascript:alert(1)"


class Tags(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)


class Mailbox:
    """Keeps the mails as they came."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.mails.append(envelope.content)
        return "250 taken"


def test_email(extreme: Message) -> None:
    """No header, no tag and no long line comes of it; names need not be ASCII."""
    mailbox = Mailbox()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Controller(mailbox, hostname="127.0.0.1", port=port)
    server.start()
    channel = EmailChannel(
        host="127.0.0.1",
        port=port,
        security="none",
        sender="Jörg <klarm@example.org>",
        recipients=Names(["李雷 <ann@example.org>", '"Doe, Bob" <bob@example.org>']),
    )
    try:
        first = channel.send(extreme, {})
        channel.send(msgspec.structs.replace(extreme, event="resolved"), first)
    finally:
        server.stop()
    for raw in mailbox.mails:
        assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
        mail = message_from_bytes(raw, policy=default)
        assert isinstance(mail, EmailMessage)
        assert mail["Bcc"] is None
        assert [a.display_name for a in mail["From"].addresses] == ["Jörg"]
        assert [a.display_name for a in mail["To"].addresses] == ["李雷", "Doe, Bob"]
        assert "kl critical, began at step 148" in mail["Subject"]
        page = mail.get_body(("html",))
        assert page is not None
        tags = Tags()
        tags.feed(page.get_content())
        assert tags.found <= {"html", "body", "h3", "p", "img", "table", "tr", "td", "a"}
    opened, over = (message_from_bytes(raw, policy=default) for raw in mailbox.mails)
    assert over["In-Reply-To"] == over["References"] == opened["Message-ID"]


def test_webhook(service: Any, extreme: Message) -> None:
    """The receiver gets the texts as they are, as good JSON; a name fills no placeholder."""
    url = Secret(f"{service.url}/in")
    WebhookChannel(url=url).send(extreme, {})
    assert service.calls[0].json["title"] == extreme.title
    WebhookChannel(url=url, template='{"a": "$title, $run"}').send(extreme, {})
    assert service.calls[1].json == {"a": f"{extreme.title}, {extreme.run}"}
    assert "$run ${step}" in extreme.run


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of apprise
def test_apprise(service: Any, extreme: Message) -> None:
    """It passes names on to services that would ring them."""
    address = service.url.replace("http://", "json://")
    AppriseChannel(url=Secret(f"{address}/x")).send(extreme, {})
    sent_text = json.dumps(service.calls[0].json, ensure_ascii=False)
    assert [name for name in ("@everyone", "@here", "<!", "<@", "<#") if name in sent_text] == []
    assert "evil@example.org" in sent_text  # an address within a word rings nobody


def test_the_curve_is_drawn(extreme: Message) -> None:
    """With a title that its font has, and without a warning on the way."""
    assert curve_png(extreme) is not None
