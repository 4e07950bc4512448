"""The life of an incident on real channels: what each service is asked to do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler as Handler
from typing import Any

import pytest
from msgspec.structs import replace

from example_events import example_event
from klarm.channels.base import Channel
from klarm.channels.discord import DiscordChannel
from klarm.channels.message import ENDINGS, Message
from klarm.channels.pagerduty import PagerDutyChannel
from klarm.channels.slack import SlackChannel
from klarm.channels.webhook import WebhookChannel
from klarm.delivery.outbox import Outbox
from klarm.delivery.routes import Run
from klarm.delivery.worker import Worker
from klarm.delivery.writer import MessageWriter
from klarm.settings.secret import Secret
from klarm.types import Event, Severity

ID = "kq7x2abc"
OPENED = example_event(incident=3, peak=0.5, id=ID)
LIFE = [
    OPENED,
    replace(OPENED, event="settled", step=60, reason="settled"),
    replace(OPENED, event="reopened", step=80, reason="alert_while_settled"),
    replace(OPENED, event="escalated", step=90, severity="critical", reason="severity_raised"),
    replace(OPENED, event="ended", step=95, severity="critical", reason="crashed"),
    replace(OPENED, event="reopened", step=96, severity="critical", reason="resumed"),
    replace(OPENED, event="resolved", step=120, severity="critical", reason="recovered"),
]


@dataclass
class Everything:
    channel: Channel
    repeat_after: float = 0.0
    repeat_severity: Severity = "critical"

    def takes(self, message: Message) -> bool:
        return True


def answer(handler: Handler) -> None:
    """Answer as each of the services does."""
    posted = handler.server.posted = getattr(handler.server, "posted", 0) + 1  # type: ignore[attr-defined]
    content = json.dumps({"ok": True, "ts": f"17.{posted}", "channel": "C1", "id": str(posted)})
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content.encode())


def asked(service: Any, channel: Channel, life: list[Event]) -> list[str]:
    """Deliver events, each before the next one happens; return method and path of each request."""
    service.answers[:] = [answer]
    worker = Worker(Everything(channel), Outbox(None), MessageWriter(), Run("a", None), print)
    for seq, event in enumerate(life, 1):
        worker.put(replace(event, seq=seq))
        while worker.turn() is not None:
            pass
    assert not worker.pending
    return [
        f"{call.method} {call.path.removeprefix('/api/').split('?')[0]}" for call in service.calls
    ]


def test_a_slack_bot_replies_to_what_rings_and_edits_for_the_rest(service: Any) -> None:
    """Always its first message."""
    bot = SlackChannel(bot_token=Secret("xoxb-1"), channel="C1", api_url=f"{service.url}/api")
    assert asked(service, bot, LIFE) == [
        "POST chat.postMessage",
        "POST chat.update",
        "POST chat.update",
        "POST chat.postMessage",
        "POST chat.update",
        "POST chat.update",
        "POST chat.update",
        "POST chat.postMessage",
        "POST chat.update",
    ]
    first = {call.json.get("ts") or call.json.get("thread_ts") for call in service.calls[1:]}
    assert first == {"17.1"}


def test_discord_edits_one_message(service: Any) -> None:
    """The escalation is also a line of its own."""
    discord = DiscordChannel(webhook_url=Secret(f"{service.url}/hook"))
    edit = "PATCH /hook/messages/1"
    assert asked(service, discord, LIFE) == [
        "POST /hook",
        edit,
        edit,
        edit,
        "POST /hook",
        edit,
        edit,
        edit,
    ]


def test_pagerduty_gets_the_events_that_notify_people(service: Any) -> None:
    """Two alerts, since it became critical; both are resolved."""
    pager = PagerDutyChannel(routing_key=Secret("R0" * 16), api_url=service.url)
    asked(service, pager, LIFE)
    assert [(call.json["event_action"], call.json["dedup_key"]) for call in service.calls] == [
        ("trigger", ID),
        ("trigger", f"{ID}-critical"),
        ("resolve", ID),
        ("resolve", f"{ID}-critical"),
    ]


def test_a_webhook_gets_every_event(service: Any) -> None:
    """Under one key."""
    asked(service, WebhookChannel(url=Secret(f"{service.url}/in")), LIFE)
    assert [call.json["event"] for call in service.calls] == [event.event for event in LIFE]
    assert {(call.json["key"], call.json["id"]) for call in service.calls} == {(ID, ID)}


@pytest.mark.parametrize("reason", ENDINGS)
def test_pagerduty_resolves_what_ended_while_it_could_not_be_reached(
    service: Any, reason: str
) -> None:
    """The events that were pending are one message; how the last of them ended counts."""
    pager = PagerDutyChannel(routing_key=Secret("R0" * 16), api_url=service.url)
    service.answers[:] = [answer]
    worker = Worker(Everything(pager), Outbox(None), MessageWriter(), Run("a", None), print)
    ended = replace(OPENED, event="resolved", seq=2, step=90, reason=reason, recovered=False)
    for event in (OPENED, ended):
        worker.put(event)
    worker.turn()
    assert [call.json["event_action"] for call in service.calls] == ["trigger", "resolve"]
