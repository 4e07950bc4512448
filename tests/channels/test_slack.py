"""Slack: a webhook, or a bot with threads and the curve."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler as Handler
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import over
from example_events import example_message
from klarm.channels import slack
from klarm.channels.base import NotDelivered
from klarm.channels.message import Message
from klarm.channels.slack import SlackChannel, slack_payload
from klarm.channels.text import width
from klarm.settings.fields import ConfigError
from klarm.settings.secret import Secret


def webhook(service: Any) -> SlackChannel:
    return SlackChannel(name="team", webhook_url=Secret(f"{service.url}/services/T0/B0/secret-x"))


def bot(service: Any) -> SlackChannel:
    return SlackChannel(
        name="team",
        bot_token=Secret("xoxb-secret-token"),
        channel="C1",
        api_url=f"{service.url}/api",
    )


def play_api(service: Any, uploads: str = "") -> Callable[[Handler], None]:
    """Answer each method as Slack documents it."""

    def answer(handler: Handler) -> None:
        method = handler.path.rpartition("/")[2]
        body: object = {"ok": True}
        if method == "chat.postMessage":
            body = {"ok": True, "ts": f"17.{len(service.calls):04}", "channel": "C1"}
        elif method == "files.getUploadURLExternal":
            body = {
                "ok": True,
                "upload_url": f"{uploads or service.url}/upload/v1/F1",
                "file_id": "F1",
            }
        content = json.dumps(body).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def test_a_webhook_gets_blocks_and_a_text(service: Any, message: Message) -> None:
    """The text is what notifications show."""
    assert webhook(service).send(message, {}) == {}
    (call,) = service.calls
    assert (call.method, call.path) == ("POST", "/services/T0/B0/secret-x")
    assert call.json == slack_payload(message)
    assert call.json["text"].startswith("🔴 grpo-7b: kl critical, began at step 148")
    assert [block["type"] for block in call.json["blocks"]] == [
        "header",
        "section",
        "section",
        "section",
        "section",
        "section",
    ]
    assert call.json["blocks"][4]["fields"][-2:] == [
        {"type": "mrkdwn", "text": "*Cost*", "verbatim": True},
        {"type": "plain_text", "text": "$4.00 since it began, $560 for the run so far"},
    ]


def test_a_web_page_is_not_slack(service: Any, message: Message) -> None:
    """A hotel's login page answers 200 to everything."""
    service.always(200, b"<!doctype html><title>Welcome</title>")
    with pytest.raises(NotDelivered) as failed:
        webhook(service).send(message, {})
    assert failed.value.retry is True


def test_a_bot_posts_and_puts_the_curve_into_the_thread(service: Any, message: Message) -> None:
    """By the three calls that an upload takes."""
    service.answers[:] = [play_api(service)]
    receipt = bot(service).send(message, {})
    assert receipt == {"ts": "17.0001", "channel": "C1"}
    assert [call.path for call in service.calls] == [
        "/api/chat.postMessage",
        "/api/files.getUploadURLExternal",
        "/upload/v1/F1",
        "/api/files.completeUploadExternal",
    ]
    posted, ticket, upload, complete = service.calls
    assert posted.headers["Authorization"] == "Bearer xoxb-secret-token"
    assert posted.json["channel"] == "C1"
    assert "thread_ts" not in posted.json
    assert upload.body.startswith(b"\x89PNG")
    assert upload.headers["Authorization"] is None
    assert ticket.body == f"filename=curve.png&length={len(upload.body)}".encode()
    assert complete.json == {
        "files": [{"id": "F1", "title": "kl"}],
        "channel_id": "C1",
        "thread_ts": "17.0001",
    }


def test_what_follows_goes_into_the_thread_of_the_first(service: Any, message: Message) -> None:
    """And is shown in the channel; the receipt stays that of the first."""
    service.answers[:] = [play_api(service)]
    first = bot(service).send(message, {})
    for event in ("escalated", "resolved"):
        later = msgspec.structs.replace(message, event=event)
        assert bot(service).send(later, first) == first
        posts = [call.json for call in service.calls if call.path.endswith("postMessage")]
        assert posts[-1]["thread_ts"] == "17.0001"
        assert posts[-1]["reply_broadcast"] is True
    assert posts[-1]["text"].startswith("✅")


def edits(service: Any) -> list[Any]:
    return [call.json for call in service.calls if call.path.endswith("chat.update")]


@pytest.mark.parametrize("event", ["settled", "reopened", "ended"])
def test_what_rings_nobody_edits_the_first_message(
    service: Any, message: Message, event: str
) -> None:
    """Nothing is posted; the receipt stays."""
    service.answers[:] = [play_api(service)]
    first = {"ts": "17.0001", "channel": "C1"}
    quiet = msgspec.structs.replace(message, event=event)
    assert bot(service).updates == "edits"
    assert bot(service).send(quiet, first) == first
    (edit,) = edits(service)
    payload = slack_payload(quiet)
    assert edit == {**first, "text": payload["text"], "blocks": payload["blocks"]}
    assert len(service.calls) == 1


def test_a_reply_also_brings_the_first_message_up_to_date(service: Any, message: Message) -> None:
    """Whoever scrolls past it sees that it is over."""
    service.answers[:] = [play_api(service)]
    over = msgspec.structs.replace(message, event="resolved")
    bot(service).send(over, {"ts": "17.0001", "channel": "C1"})
    (edit,) = edits(service)
    assert (edit["ts"], edit["text"][0]) == ("17.0001", "✅")


@pytest.mark.parametrize(("error", "fails"), [("message_not_found", False), ("invalid_auth", True)])
def test_a_message_that_was_deleted_need_not_be_edited(
    service: Any, message: Message, error: str, fails: bool
) -> None:
    """There is nobody to be notified; other errors are errors."""
    service.always(200, {"ok": False, "error": error})
    quiet = msgspec.structs.replace(message, event="settled")
    first = {"ts": "17.0001", "channel": "C1"}
    if fails:
        with pytest.raises(NotDelivered, match=error):
            bot(service).send(quiet, first)
    else:
        assert bot(service).send(quiet, first) == first


def test_a_webhook_cannot_edit(service: Any) -> None:
    """So it is not given what rings nobody."""
    assert webhook(service).updates == "none"


def test_a_curve_that_cannot_be_uploaded_keeps_nothing_back(
    service: Any, message: Message, answered: Callable[..., Any]
) -> None:
    """The message is there already; sending it again would tell people twice."""
    posted = answered(200, {"ok": True, "ts": "1.2", "channel": "C1"})
    service.answers[:] = [posted, answered(200, {"ok": False, "error": "missing_scope"})]
    assert bot(service).send(message, {}) == {"ts": "1.2", "channel": "C1"}


@pytest.mark.parametrize(
    ("error", "retry", "expected"),
    [
        ("invalid_auth", False, r"invalid_auth \(check bot_token\)"),
        ("not_in_channel", False, "invite the bot"),
        ("channel_not_found", False, "channel's id"),
        ("internal_error", True, "internal_error"),
        ("ratelimited", True, "ratelimited"),
    ],
)
def test_slack_says_no_with_200(
    service: Any, message: Message, error: str, retry: bool, expected: str
) -> None:
    """What it says decides whether another try may help."""
    service.always(200, {"ok": False, "error": error})
    with pytest.raises(NotDelivered, match=expected) as failed:
        bot(service).send(message, {})
    assert failed.value.retry is retry


@pytest.mark.parametrize("body", [b"", b"ok", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_an_answer_that_is_no_object_is_not_from_slack(
    service: Any, message: Message, body: bytes
) -> None:
    """Whether the message arrived is not known: it is tried again."""
    service.always(200, body)
    with pytest.raises(NotDelivered, match="not JSON") as failed:
        bot(service).send(message, {})
    assert failed.value.retry is True


def test_rate_limits_are_obeyed(service: Any, message: Message) -> None:
    """Slack answers 429 with the seconds to wait."""
    service.always(429, {"ok": False, "error": "ratelimited"}, Retry_After="12")
    with pytest.raises(NotDelivered) as failed:
        bot(service).send(message, {})
    assert (failed.value.retry, failed.value.after_seconds) == (True, 12.0)


def test_nothing_in_a_message_is_taken_for_markup(message: Message) -> None:
    """`<!channel>` would ring everybody."""
    nasty = msgspec.structs.replace(
        message, title="<!channel> & co", summary="<@U1>", fields={"<b>": "<!here>"}, link="<x|y>"
    )
    text = json.dumps(slack_payload(nasty), ensure_ascii=False)
    assert "&lt;!channel&gt; &amp; co" in text
    assert not [part for part in ("<!", "<@", "<b>", "<x|y>") if part in text]


words = st.text(max_size=6000) | st.text("<&>🔴`", max_size=6000)


@given(words, words, st.dictionaries(words, words, max_size=12), words)
def test_a_payload_keeps_within_the_limits(
    title: str, summary: str, fields: dict[str, str], link: str
) -> None:
    """Of Slack's documentation, whatever the texts are."""
    payload = slack_payload(
        example_message(
            title=title,
            body=summary,
            summary=summary,
            fields=fields,
            link=link,
            sparkline="▁█" * 20,
            metric="kl",
        )
    )
    assert width(payload["text"]) <= slack.MAX_TEXT
    assert len(payload["blocks"]) <= 50
    header, *others = payload["blocks"]
    assert 1 <= width(header["text"]["text"]) <= slack.MAX_HEADER
    for block in others:
        if "text" in block:
            assert 1 <= width(block["text"]["text"]) <= slack.MAX_SECTION
        else:
            assert 1 <= len(block["fields"]) <= slack.MAX_FIELDS
            assert all(width(field["text"]) <= slack.MAX_FIELD for field in block["fields"])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "channels.team needs webhook_url, or bot_token and channel"),
        (
            {"webhook_url": Secret("https://a/b"), "bot_token": Secret("x")},
            "has webhook_url and bot_token; it needs only one of them",
        ),
        ({"bot_token": Secret("x")}, "channels.team.channel must be set"),
        ({"webhook_url": Secret("hooks.slack.com/x")}, "channels.team.webhook_url must be a URL"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, Any], expected: str) -> None:
    """Before training starts."""
    with pytest.raises(ConfigError, match=expected):
        SlackChannel(name="team", **settings)


def test_the_curve_is_sent_to_slack_and_to_nobody_else(service: Any, message: Message) -> None:
    """An API that is not what it seems names any address; the message is there all the same."""
    elsewhere = service.url.replace("127.0.0.1", "localhost")
    service.answers[:] = [play_api(service, elsewhere)]
    channel = SlackChannel(
        name="team", bot_token=Secret("xoxb-1"), channel="C1", api_url=f"{service.url}/api"
    )
    assert channel.send(message, {})["channel"] == "C1"
    assert [call.path.rpartition("/")[2] for call in service.calls] == [
        "chat.postMessage",
        "files.getUploadURLExternal",
    ]


@over(
    "address, ours",
    [
        ("https://files.slack.com/upload/v1/x", True),
        ("https://slack.com/upload", True),
        ("http://files.slack.com/upload", False),
        ("https://files.slack.com.evil.org/upload", False),
        ("https://evilslack.com/upload", False),
        ("https://files.slack.com@evil.org/upload", False),
        ("https://files.slack.com:8443/upload", False),
        ("file:///etc/passwd", False),
        ("https://[::1", False),
        ("", False),
    ],
)
def test_which_addresses_are_slacks(address: str, ours: bool) -> None:
    """Its own host and those below it, encrypted."""
    channel = SlackChannel(name="team", bot_token=Secret("xoxb-1"), channel="C1")
    assert channel._belongs_to_slack(address) is ours
