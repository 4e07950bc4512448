"""Prospects: what would become of what is pending, without sending anything."""

from __future__ import annotations

from loopback import LoopbackChannel, LoopbackRoute, Server
from one_channel import FOLDER, Run, ack, id_of, outcomes, silence

from klarm.delivery.outbox import Outbox
from klarm.delivery.prospects import Prospects, prospects_of
from klarm.delivery.routes import Run as Place

FIRST = id_of(1)


def ahead(server: Server, *severities: str) -> Prospects:
    channel = LoopbackChannel(name="hook", url=server.url)
    route = LoopbackRoute(channel, severities or ("warning", "critical"))
    outbox = Outbox(FOLDER)
    outbox.refresh()
    return prospects_of(Place("a", FOLDER), [route], outbox, 5000.0)


def test_what_is_pending_will_be_sent(run: Run, server: Server) -> None:
    """Looking sends and records nothing."""
    run.tell("opened")
    assert ahead(server) == {FIRST: {"hook": "send"}}
    assert server.messages == []
    assert outcomes() == []


def test_what_was_sent_is_no_longer_ahead(run: Run, server: Server) -> None:
    """Until the incident changes."""
    run.tell("opened")
    run.settle()
    assert ahead(server) == {}
    run.tell("resolved", step=20)
    assert ahead(server) == {FIRST: {"hook": "send"}}


def test_a_silence_and_an_acknowledgement_are_foreseen(run: Run, server: Server) -> None:
    """As the worker would judge."""
    run.tell("opened")
    silence(until_time=6000.0)
    assert ahead(server) == {FIRST: {"hook": "wait"}}
    ack(1)
    assert ahead(server) == {FIRST: {"hook": "acknowledged"}}


def test_a_channel_that_does_not_take_it_is_not_listed(run: Run, server: Server) -> None:
    """By its severity."""
    run.tell("opened", severity="warning")
    assert ahead(server, "critical") == {}
