"""A worker: events go to one channel in order, once, merged where they were late."""

from __future__ import annotations

import json

import pytest
from loopback import LoopbackChannel, LoopbackRoute, Server
from one_channel import FOLDER, Run, outcomes

from klarm.channels.base import Channel
from klarm.delivery import log as deliveries


def test_an_event_is_sent_once_and_recorded(run: Run, server: Server) -> None:
    """With its receipt, which the incident's next message gets."""
    run.tell("opened")
    assert run.settle() is None
    run.tell("resolved", step=30)
    assert run.settle() is None
    assert server.received() == [(1, "opened", 10), (1, "resolved", 30)]
    assert [message["earlier"] for message in server.messages] == [{}, {"thread": "t1"}]
    assert outcomes() == [(1, "opened", "sent"), (1, "resolved", "sent")]
    line = json.loads((FOLDER / "deliveries.jsonl").read_text().splitlines()[0])
    assert (line["channel"], line["attempts"], line["time"]) == ("hook", 1, 5000.0)
    assert line["receipt"] == {"thread": "t1"}


def test_an_escalation_is_never_sent_before_the_opening(run: Run, server: Server) -> None:
    """If the opening did not get through, one message says both."""
    server.answers = [(500, {})]
    run.tell("opened")
    pause = run.settle()
    run.tell("escalated", step=12, severity="critical")
    assert pause is not None
    run.now += pause
    assert run.settle() is None
    assert server.received()[1:] == [(1, "opened", 10)]
    assert server.messages[1]["severity"] == "critical"
    assert "Opened at step 10" in server.messages[1]["body"]
    assert outcomes() == [(1, "opened", "sent"), (1, "escalated", "sent")]


def test_an_incident_that_is_over_before_it_was_sent_is_one_message(
    run: Run, server: Server
) -> None:
    """Each event is recorded as delivered, all by the same message."""
    server.answers = [(500, {})]
    run.tell("opened")
    pause = run.settle()
    run.tell("escalated", step=12, severity="critical")
    run.tell("resolved", step=40, severity="critical")
    assert pause is not None
    run.now += pause
    assert run.settle() is None
    assert server.received()[1:] == [(1, "resolved", 40)]
    assert "Opened at step 10" in server.messages[1]["body"]
    assert [event for _, event, _ in outcomes()] == ["opened", "escalated", "resolved"]
    entries = [e for _, e in deliveries.read(FOLDER) if isinstance(e, deliveries.Delivered)]
    sent = (server.messages[1]["message_id"], 3)
    assert [(entry.message, entry.covers) for entry in entries] == [sent] * 3
    assert deliveries.by_message(entries) == [entries]


def test_a_message_that_always_fails_does_not_hold_up_others(run: Run, server: Server) -> None:
    """The next try is another incident's."""
    server.answers = [(500, {}), (200, {}), (500, {}), (200, {})]
    run.tell("opened", incident=1)
    run.tell("opened", incident=2, step=11)
    run.tell("opened", incident=3, step=12)
    for _ in range(3):
        pause = run.settle()
        run.now += pause or 0.0
    assert [incident for incident, _, _ in server.received()] == [1, 2, 3, 1, 3]


def test_a_torn_line_of_the_deliveries_is_passed_over(run: Run, server: Server) -> None:
    """What follows is not glued to it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "deliveries.jsonl").write_bytes(b'{"type":"delivery","began":10')
    run.tell("opened")
    assert run.settle() is None
    assert outcomes() == [(1, "opened", "sent")]


def test_a_failure_of_our_own_waits_and_lets_others_first(run: Run, server: Server) -> None:
    """A channel with a bug in it, for one incident."""

    class Buggy(LoopbackChannel):
        def send(self, message, earlier):  # type: ignore[no-untyped-def]
            if message.incident == 1:
                raise KeyError("https://secret")
            return super().send(message, earlier)

    channel: Channel = Buggy(name="hook", url=server.url)
    run.worker._sender._route = LoopbackRoute(channel)  # type: ignore[arg-type]
    run.tell("opened", incident=1)
    run.tell("opened", incident=2, step=11)
    with pytest.raises(KeyError) as failure:
        run.worker.turn()
    assert run.worker.on_internal_error(failure.value) == 0.5
    run.now += 0.5
    assert run.worker.turn() == 0.0
    assert server.received() == [(2, "opened", 11)]
    assert run.said[0].startswith("hook: delivery failed (KeyError inside klarm)")


def test_after_a_long_outage_everything_is_sent(run: Run, server: Server) -> None:
    """In whatever order."""
    run.tell("opened")
    run.settle()
    server.answers = [(500, {})] * 14
    run.tell("resolved", step=40)
    run.tell("opened", 2, step=50)
    while (pause := run.settle()) is not None:
        run.now += pause
    assert {(1, "resolved", "sent"), (2, "opened", "sent")} <= set(outcomes())


def test_a_record_that_may_not_be_read_keeps_nobody_from_being_notified(
    run: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's file: better to notify twice than not at all, and klarm says so."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(deliveries, "read", refuse)
    run.tell("opened")
    run.settle()
    assert server.received() == [(1, "opened", 10)]
    assert "cannot read deliveries.jsonl (Permission denied)" in run.said[0]
