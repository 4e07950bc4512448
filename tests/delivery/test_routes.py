"""What rings nobody: settled, reopened and ended change what was sent before."""

from __future__ import annotations

import pytest
from loopback import LoopbackChannel, Server
from one_channel import Run, ack, outcomes, silence


@pytest.fixture
def edits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopbackChannel, "updates", "edits")


def test_a_channel_that_cannot_edit_is_not_sent_them(run: Run, server: Server) -> None:
    """Nothing is pending, and nothing is recorded."""
    run.tell("opened")
    run.settle()
    for kind, step in (("settled", 50), ("reopened", 60), ("ended", 70)):
        run.tell(kind, step=step)
        assert run.settle() is None
    assert server.received() == [(1, "opened", 10)]
    assert outcomes() == [(1, "opened", "sent")]
    run.worker._outbox.release()
    assert run.settle(run.new_worker(behind=True)) is None
    assert len(server.messages) == 1


@pytest.mark.usefixtures("edits")
def test_a_channel_that_can_edit_is_sent_them(run: Run, server: Server) -> None:
    """With the receipt of what it sent; each once, also across restarts."""
    run.tell("opened")
    run.settle()
    for kind, step in (("settled", 50), ("reopened", 60), ("ended", 70)):
        run.tell(kind, step=step)
        run.settle()
    assert [event for _, event, _ in server.received()] == [
        "opened",
        "settled",
        "reopened",
        "ended",
    ]
    assert all(message["earlier"] for message in server.messages[1:])
    run.worker._outbox.release()
    assert run.settle(run.new_worker(behind=True)) is None
    assert len(server.messages) == 4


@pytest.mark.usefixtures("edits")
def test_there_is_nothing_to_edit_where_nothing_was_sent(server: Server) -> None:
    """A channel for what is critical; it hears of the incident when it becomes critical."""
    run = Run(server)
    run.worker = run.new_worker(severities=["critical"])
    run.tell("opened")
    run.settle()
    run.tell("settled", step=50)
    assert run.settle() is None
    assert server.messages == []
    run.tell("escalated", step=60, severity="critical")
    run.settle()
    assert server.received() == [(1, "escalated", 60)]


def test_a_channel_that_posts_gets_every_event(
    run: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of one's own decides what rings."""
    monkeypatch.setattr(LoopbackChannel, "updates", "posts")
    for kind, step in (("opened", 10), ("settled", 50), ("ended", 70)):
        run.tell(kind, step=step)  # type: ignore[arg-type]
        run.settle()
    assert [event for _, event, _ in server.received()] == ["opened", "settled", "ended"]


def test_what_is_sent_late_says_what_happened_meanwhile(run: Run, server: Server) -> None:
    """The opening did not get through before it settled: one message, which rings."""
    server.answers = [(500, {})]
    run.tell("opened")
    pause = run.settle()
    run.tell("settled", step=50)
    run.now += pause or 0.0
    assert run.settle() is None
    assert server.received()[1:] == [(1, "opened", 10)]
    assert "Settled at step 50" in server.messages[1]["body"]
    assert outcomes() == [(1, "opened", "sent"), (1, "settled", "sent")]


@pytest.mark.usefixtures("edits")
def test_neither_an_acknowledgement_nor_a_silence_holds_back_an_edit(
    run: Run, server: Server
) -> None:
    """It rings nobody."""
    run.tell("opened")
    run.settle()
    ack(1)
    silence(until_time=6000.0)
    run.tell("settled", step=50)
    run.settle()
    assert [event for _, event, _ in server.received()] == ["opened", "settled"]


@pytest.mark.usefixtures("edits")
def test_what_settles_in_a_silence_is_sent_after_it_with_the_opening(
    run: Run, server: Server
) -> None:
    """Both are held back: nobody knows of the incident."""
    silence(until_time=5020.0)
    run.tell("opened")
    run.settle()
    run.tell("settled", step=50)
    run.settle()
    assert server.messages == []
    for _ in range(3):
        run.now += 15.0
        run.settle()
    assert server.received() == [(1, "opened", 10)]


@pytest.mark.usefixtures("edits")
def test_an_edit_waits_for_what_a_silence_holds_back(run: Run, server: Server) -> None:
    """Else the escalation, which is sent later, would be shown in place of how it settled."""
    run.tell("opened")
    run.settle()
    silence(until_time=5020.0)
    run.tell("escalated", step=40)
    run.settle()
    run.tell("settled", step=50)
    run.settle()
    assert server.received() == [(1, "opened", 10)]
    for _ in range(3):
        run.now += 15.0
        run.settle()
    assert server.received()[1:] == [(1, "escalated", 40)]
