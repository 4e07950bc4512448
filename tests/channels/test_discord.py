"""Discord: an embed that is kept up to date."""

from __future__ import annotations

import json
from collections.abc import Callable
from email import message_from_bytes
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_events import example_message
from klarm.channels import discord
from klarm.channels.base import NotDelivered
from klarm.channels.discord import DiscordChannel, discord_payload
from klarm.channels.message import Message
from klarm.channels.text import width
from klarm.settings.fields import ConfigError
from klarm.settings.secret import Secret

HOOK = "/api/webhooks/17/secret-token"


def channel(service: Any, query: str = "") -> DiscordChannel:
    return DiscordChannel(name="team", webhook_url=Secret(f"{service.url}{HOOK}{query}"))


def parts_of(call: Any) -> tuple[Any, bytes | None]:
    """Return the JSON of a request, and its picture if it has one."""
    if not call.headers["Content-Type"].startswith("multipart/"):
        return call.json, None
    head = f"Content-Type: {call.headers['Content-Type']}\r\n\r\n".encode()
    payload, image = message_from_bytes(head + call.body).get_payload()  # type: ignore[misc]
    assert "files[0]" in image["Content-Disposition"]  # type: ignore[index]
    return (
        json.loads(payload.get_payload(decode=True)),  # type: ignore[union-attr, arg-type]
        image.get_payload(decode=True),  # type: ignore[union-attr, return-value]
    )


@pytest.fixture
def plain(message: Message) -> Message:
    """A message without a curve: a picture takes long to draw."""
    return msgspec.structs.replace(message, curve=[])


def test_an_embed_is_posted_with_the_curve(service: Any, message: Message) -> None:
    """The id of the message is the receipt."""
    service.always(200, {"id": "99"})
    assert channel(service).send(message, {}) == {"id": "99"}
    (call,) = service.calls
    assert (call.method, call.path) == ("POST", f"{HOOK}?wait=true")
    payload, image = parts_of(call)
    assert image is not None
    assert image.startswith(b"\x89PNG")
    assert payload["allowed_mentions"] == {"parse": []}
    assert payload["attachments"] == [{"id": 0, "filename": "curve.png"}]
    (embed,) = payload["embeds"]
    assert embed["title"] == message.title
    assert embed["image"] == {"url": "attachment://curve.png"}
    assert embed["url"] == message.link


def test_what_follows_edits_the_first_message(service: Any, message: Message) -> None:
    """An escalation is also said in a new line, since an edit rings nobody."""
    service.always(200, {"id": "99"})
    warned = msgspec.structs.replace(message, event="escalated")
    assert channel(service).send(warned, {"id": "99"}) == {"id": "99"}
    assert [(call.method, call.path) for call in service.calls] == [
        ("PATCH", f"{HOOK}/messages/99?wait=true"),
        ("POST", f"{HOOK}?wait=true"),
    ]
    assert service.calls[1].json == {
        "content": message.title,
        "allowed_mentions": {"parse": []},
    }
    over = msgspec.structs.replace(message, event="resolved", curve=[])
    assert channel(service).send(over, {"id": "99"}) == {"id": "99"}
    (edit,) = service.calls[2:]
    assert edit.method == "PATCH"
    assert edit.json["attachments"] == []  # the picture there was goes


def test_an_end_without_recovery_is_also_said_in_a_new_line(service: Any, plain: Message) -> None:
    """Somebody has to look."""
    service.always(200, {"id": "99"})
    title = "grpo-7b: kl went quiet, but has not recovered, at step 300"
    quiet = msgspec.structs.replace(plain, event="resolved", recovered=False, title=title)
    assert channel(service).send(quiet, {"id": "99"}) == {"id": "99"}
    assert [call.method for call in service.calls] == ["PATCH", "POST"]
    assert service.calls[1].json["content"] == title


@pytest.mark.parametrize("event", ["settled", "reopened", "ended"])
@pytest.mark.parametrize("status", [200, 404])
def test_what_rings_nobody_only_edits(
    service: Any, plain: Message, event: str, status: int
) -> None:
    """If the message was deleted, no new one is posted."""
    service.always(status, {"id": "99"})
    quiet = msgspec.structs.replace(plain, event=event)
    assert channel(service).updates == "edits"
    assert channel(service).send(quiet, {"id": "99"}) == {"id": "99"}
    assert [call.method for call in service.calls] == ["PATCH"]


def test_a_message_that_was_deleted_is_posted_anew(
    service: Any, plain: Message, answered: Callable[..., Any]
) -> None:
    """Somebody may have tidied up."""
    service.answers[:] = [
        answered(404, {"message": "Unknown Message", "code": 10008}),
        answered(200, {"id": "100"}),
    ]
    assert channel(service).send(plain, {"id": "99"}) == {"id": "100"}


def test_a_webhook_that_was_deleted_is_not_tried_again(service: Any, plain: Message) -> None:
    """Discord answers 404 to it, for good."""
    service.always(404, {"message": "Unknown Webhook", "code": 10015})
    for earlier in ({}, {"id": "99"}):
        with pytest.raises(NotDelivered, match="does not know this webhook") as failed:
            channel(service).send(plain, earlier)
        assert failed.value.retry is False


def test_a_thread_of_a_forum_is_kept(service: Any, plain: Message) -> None:
    """It stands in the query of the address."""
    service.always(200, {"id": "99"})
    channel(service, "?thread_id=7").send(plain, {})
    assert service.calls[0].path == f"{HOOK}?thread_id=7&wait=true"


def test_rate_limits_are_obeyed(service: Any, plain: Message) -> None:
    """Discord gives fractions of seconds."""
    service.always(429, {"retry_after": 1.25}, Retry_After="1.25")
    with pytest.raises(NotDelivered) as failed:
        channel(service).send(plain, {})
    assert (failed.value.retry, failed.value.after_seconds) == (True, 1.25)


def test_an_answer_without_json_is_tried_again(service: Any, plain: Message) -> None:
    """With wait=true Discord always tells the message."""
    service.always(200, b"<html>")
    with pytest.raises(NotDelivered) as failed:
        channel(service).send(plain, {})
    assert failed.value.retry is True


def test_nothing_in_a_message_is_taken_for_markup(message: Message) -> None:
    """And no name rings anybody."""
    nasty = msgspec.structs.replace(
        message, title="@everyone **run_7** <@1>", link="javascript:alert(1)"
    )
    payload = discord_payload(nasty)
    assert payload["embeds"][0]["title"] == r"@everyone \*\*run\_7\*\* \<@1\>"
    assert "url" not in payload["embeds"][0]
    assert payload["allowed_mentions"] == {"parse": []}


words = st.text(max_size=5000) | st.text("*_🔴`", max_size=5000)


@given(words, words, st.dictionaries(words, words, max_size=30), words)
def test_a_payload_keeps_within_the_limits(
    title: str, summary: str, fields: dict[str, str], metric: str
) -> None:
    """Of Discord's documentation, whatever the texts are."""
    payload = discord_payload(
        example_message(
            title=title,
            body=summary,
            summary=summary,
            fields=fields,
            sparkline="▁█" * 20,
            metric=metric,
        )
    )
    (embed,) = payload["embeds"]
    assert width(embed["title"]) <= discord.MAX_TITLE
    assert width(embed["description"]) <= discord.MAX_DESCRIPTION
    assert len(embed["fields"]) <= discord.MAX_FIELDS
    total = width(embed["title"]) + width(embed["description"])
    for field in embed["fields"]:
        assert 1 <= width(field["name"]) <= discord.MAX_NAME
        assert 1 <= width(field["value"]) <= discord.MAX_VALUE
        total += width(field["name"]) + width(field["value"])
    assert total <= discord.MAX_TOTAL


def test_without_an_address_there_is_no_channel() -> None:
    """Said before training starts."""
    with pytest.raises(ConfigError, match=r"channels.team.webhook_url must be set"):
        DiscordChannel(name="team")
