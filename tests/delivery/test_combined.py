"""Combined events: what one message says about several."""

from __future__ import annotations

import msgspec
import pytest
from loopback import LoopbackChannel, Server
from one_channel import Run

from example_events import example_event
from klarm.delivery import routes
from klarm.delivery.combined import became_of, history_of, merge_events
from klarm.delivery.writer import MessageWriter
from klarm.types import EventKind, Moved


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
    opened = example_event(
        step=155,
        also=(
            Moved("entropy", "down", "gradual", rows=100, ratio=0.77),
            Moved("reward", "flat", "flat"),
        ),
    )
    ended = example_event("ended", step=249)
    moved = merge_events([opened, ended]).moved
    assert (
        moved == "entropy down 23% over the last 100 rows; no clear change: reward (as of step 155)"
    )
    assert merge_events([opened]).moved == opened.moved


def test_the_numbers_of_an_alarm_before_the_last_event_have_their_step() -> None:
    """Beside a higher peak and a curve that goes on, they would look wrong."""
    opened = example_event(step=155, message="KL 0.2 is high.")
    worse = example_event("escalated", step=180, message="KL 5 is high.", reason="far_worse")
    ended = example_event("ended", step=249, message="KL 5 is high.")
    assert merge_events([opened, worse, ended]).message == "Step 180: KL 5 is high."
    assert merge_events([opened, worse]).message == "KL 5 is high."


def test_a_history_calls_what_happened_what_the_terminal_calls_it() -> None:
    """An incident that got worse at the same severity was not raised to a higher one."""
    opened = example_event(step=155)
    worse = example_event("escalated", step=180, reason="far_worse")
    assert " Far worse at step 180: " in history_of([opened, worse])


def test_a_history_says_when_and_why_an_incident_opened() -> None:
    """Each change with its step."""
    opened = example_event(step=282, reason="decisive", detector="kl_runaway")
    broken = example_event(step=290, reason="not_finite")
    is_enough = "is enough to open an incident."
    assert history_of([opened, broken]) == (
        f"Opened at step 282: This kl_runaway alert {is_enough} "
        f"Opened at step 290: One NaN or infinite kl {is_enough}"
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
        (["escalated", "settled"], "escalated, now settled"),
        # Whether it had settled in between, or was resolved, is for the history.
        (["opened", "settled", "reopened"], ""),
        (["opened", "escalated", "settled", "reopened"], "opened and escalated"),
        (["escalated", "resolved", "reopened"], ""),
        (["opened", "settled", "reopened", "settled"], "opened, now settled"),
        (["settled", "reopened"], ""),
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


def test_a_combined_event_names_the_detector_that_opened_the_incident() -> None:
    """Its reason is about that one, whichever alert came last."""
    opened = example_event(step=282, reason="decisive", detector="kl_runaway")
    ended = example_event(event="ended", step=290, reason="finished", detector="kl_explosion")
    assert merge_events([opened, ended]).detector == "kl_runaway"


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


def test_a_combined_message_gives_the_latest_cause_and_advice() -> None:
    """Its summary is that of step 226, and so is everything else that the terminal says there."""
    known = {"incident": 1, "reason": "far_worse"}
    before = example_event(
        "escalated",
        step=206,
        message="KL 0.7468 is high.",
        pattern="KL far ahead of the reward",
        cause="KL has used over half its budget",
        remedy="Raise the KL penalty.",
        also=(Moved("loss", "up", before=0.013, reached=0.26, step=150),),
        checkpoint="step-160",
        **known,
    )
    worse = example_event(
        "escalated",
        step=226,
        message="KL 7.526 is high.",
        pattern="past the optimum",
        cause="the policy was pushed past the optimum",
        remedy="Go back to a checkpoint.",
        also=(Moved("loss", "up", before=0.013, reached=0.4, step=150),),
        checkpoint="step-140",
        **known,
    )
    settled = example_event("settled", step=240, reason="settled")
    for events in ([before, worse], [before, worse, settled]):
        merged = merge_events(events)
        assert (merged.step, merged.pattern, merged.cause, merged.remedy, merged.checkpoint) == (
            226,
            worse.pattern,
            worse.cause,
            worse.remedy,
            worse.checkpoint,
        )
        assert merged.moved == "loss 0.013 → 0.4 since step 150 (as of step 226)"


def test_a_combined_message_keeps_what_had_moved_when_the_incident_opened() -> None:
    """If nothing newer is known; an alarm without a pattern has its own recommendation."""
    opened = example_event(
        step=206,
        pattern="a",
        cause="b",
        remedy="c",
        also=(Moved("loss", "up", ratio=2.0, step=190),),
    )
    worse = example_event("escalated", step=226, recommendation="Stop.")
    merged = merge_events([opened, worse])
    assert merged.moved == "loss ×2 since step 190 (as of step 206)"
    assert (merged.pattern, merged.cause, merged.remedy) == ("", "", "")
    assert merged.recommendation == "Stop."


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopbackChannel, "updates", "posts")


@pytest.mark.usefixtures("posts")
def test_a_message_lists_every_change_that_it_is_about(run: Run, server: Server) -> None:
    """In a fast run: the first two came while the thread rested, the others before the end."""
    kinds: list[EventKind] = ["opened", "escalated", "settled", "reopened", "escalated", "ended"]
    for number, kind in enumerate(kinds):
        run.now += 1.0
        run.tell(kind, step=10 * number, severity="critical" if number else "warning")
        if number == 1:
            run.settle()
    run.settle()
    first, second = server.messages
    assert (first["event"], first["step"], first["state"]) == ("opened", 0, "open")
    assert (second["event"], second["step"], second["state"]) == ("escalated", 40, "ended")
    changes = [*first["changes"], *second["changes"]]
    assert [(c["event"], c["step"], c["time"]) for c in changes] == [
        (kind, 10 * number, 5001.0 + number) for number, kind in enumerate(kinds)
    ]
    assert [c["severity"] for c in changes] == ["warning"] + ["critical"] * 5
    assert [c["why"] for c in changes] == [f"it {kind}." for kind in kinds]
    assert len({c["change_id"] for c in changes}) == 6


@pytest.mark.usefixtures("posts")
@pytest.mark.parametrize(
    ("kind", "state"),
    [("opened", "open"), ("settled", "settled"), ("resolved", "resolved"), ("ended", "ended")],
)
def test_a_message_about_one_change_lists_it(
    run: Run, server: Server, kind: EventKind, state: str
) -> None:
    """So that a program can always read the list; its id is that of the message."""
    run.tell(kind)
    run.settle()
    (message,) = server.messages
    (change,) = message["changes"]
    assert (change["event"], message["state"]) == (kind, state)
    assert change["change_id"] == message["message_id"]


@pytest.mark.usefixtures("posts")
def test_a_change_keeps_its_id_if_it_is_sent_again_with_another(run: Run, server: Server) -> None:
    """The answer to the first message was lost, so the second repeats it under a new id."""
    server.answers = [(500, {})]
    run.tell("opened")
    pause = run.settle()
    run.tell("resolved", step=40)
    run.now += pause or 0.0
    run.settle()
    lost, told = server.messages
    assert lost["message_id"] != told["message_id"]
    assert lost["changes"][0]["change_id"] == told["changes"][0]["change_id"]
    assert [change["event"] for change in told["changes"]] == ["opened", "resolved"]


def test_the_changes_of_a_run_that_is_not_recorded_are_listed(server: Server) -> None:
    """At the time at which they are sent."""
    run = Run(server, folder=None)
    run.tell("opened")
    run.tell("escalated", step=12, severity="critical")
    run.settle()
    (message,) = server.messages
    assert [(c["event"], c["time"]) for c in message["changes"]] == [
        ("opened", 5000.0),
        ("escalated", 5000.0),
    ]


def test_a_combined_message_of_a_run_that_ended_says_what_to_do_after_it() -> None:
    """Nothing is left to be stopped."""
    opened = example_event(step=20, metric="kl", recommendation="Lower the learning rate.")
    ended = msgspec.structs.replace(opened, event="ended", step=90, reason="finished")
    message = MessageWriter()([opened, ended], routes.Run("a", None))
    alone = MessageWriter()([ended], routes.Run("a", None))
    assert message.event == "opened"
    assert message.fields["To do"] == alone.fields["To do"] != opened.recommendation
