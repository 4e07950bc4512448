"""What rings nobody: settled, reopened and ended change what was sent before."""

from __future__ import annotations

import msgspec
import pytest
from loopback import LoopbackChannel, Server
from one_channel import Run, ack, outcomes, silence

from example_events import example_event
from klarm.delivery.routes import became_of, history_of, merge_events
from klarm.types import EventKind


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


@pytest.mark.parametrize(
    ("kinds", "merged"),
    [
        (["opened", "settled"], "opened"),
        (["settled", "escalated"], "escalated"),
        (["escalated", "settled", "ended"], "escalated"),
        (["settled", "reopened"], "reopened"),
        (["opened", "resolved"], "resolved"),
        (["resolved", "reopened"], "reopened"),
        (["opened", "resolved", "reopened"], "opened"),
        (["resolved", "reopened", "escalated"], "escalated"),
        (["resolved", "reopened", "resolved"], "resolved"),
    ],
)
def test_merged_events_say_how_it_stands(
    run: Run, kinds: list[EventKind], merged: EventKind
) -> None:
    """An end after which the incident is open again is no end."""
    events = [run.tell(kind, step=step) for step, kind in enumerate(kinds)]
    assert merge_events(events).event == merged
    # The step is that of the event that the message names, and so is the reason.
    named = kinds.index(merged) if kinds[-1] != merged else len(kinds) - 1
    assert (merge_events(events).step, merge_events(events).reason) == (named, f"it {merged}")


def test_a_late_message_says_until_when_it_was_seen_what_else_moved() -> None:
    """The run may have ended since, with another level of everything."""
    opened = example_event(step=155, moved="entropy down 23%; reward flat")
    ended = example_event("ended", step=249)
    assert merge_events([opened, ended]).moved == "entropy down 23%; reward flat (by step 155)"
    assert merge_events([opened]).moved == opened.moved


def test_a_history_says_when_and_why_an_incident_opened() -> None:
    """Each change with its step."""
    opened = example_event(step=282, reason="decisive", detector="kl_runaway")
    broken = example_event(step=290, reason="not_finite")
    is_enough = "is enough to open an incident."
    assert history_of([opened, broken]) == (
        f"Opened at step 282: This kl_runaway alert {is_enough} "
        f"Opened at step 290: One value that is not finite {is_enough}"
    )


@pytest.mark.parametrize(
    ("kinds", "became"),
    [
        (["opened"], ""),
        (["opened", "escalated"], "opened and escalated"),
        (["opened", "escalated", "settled"], "opened, now settled"),
        (["opened", "ended"], "unresolved when the run ended"),
        (["escalated", "escalated"], ""),
        (["opened", "resolved"], ""),
    ],
)
def test_the_title_of_merged_events_says_what_became_of_the_incident(
    kinds: list[EventKind], became: str
) -> None:
    """An incident that has escalated since is not only opened."""
    assert became_of([example_event(event=kind) for kind in kinds]) == became


def test_merged_events_give_the_latest_advice_of_their_pattern() -> None:
    """A single NaN has become many."""
    opened = example_event(pattern="KL broken", remedy="Check the next rows.")
    ended = example_event(event="ended", pattern="KL broken", remedy="Stop.")
    assert merge_events([opened, ended]).remedy == "Stop."
    assert (
        merge_events([opened, msgspec.structs.replace(ended, pattern="")]).remedy == opened.remedy
    )


def test_a_late_message_tells_one_story(run: Run, server: Server) -> None:
    """An opening is dated by its own step, as bad as it has become, with what happened since."""
    server.answers = [(503, {})]
    run.tell("opened", step=10)
    run.settle()
    run.now += 30.0
    run.tell("escalated", step=40, severity="critical")
    run.now += 570.0
    run.settle()
    message = server.messages[-1]
    assert (message["event"], message["step"], message["severity"]) == ("opened", 10, "critical")
    assert message["title"].endswith("(opened and escalated)")
    fields = message["fields"]
    assert fields["History"].startswith("Opened at step 10: it opened. Escalated at step 40: ")
    assert fields["Sent late"] == "10 min after it happened"
    assert message["time"] == 5000.0
    assert [step for step, _ in message["curve"]] == [10, 40]


def test_a_combined_event_names_the_detector_that_opened_the_incident() -> None:
    """Its reason is about that one, whichever alert came last."""
    opened = example_event(step=282, reason="decisive", detector="kl_runaway")
    ended = example_event(event="ended", step=290, reason="finished", detector="kl_explosion")
    assert merge_events([opened, ended]).detector == "kl_runaway"
