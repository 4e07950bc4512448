"""What the page says of an incident agrees with what messages say."""

from __future__ import annotations

import pytest
from batches import RUN, written
from msgspec.structs import replace
from serving_runs import RUNS, served

import klarm
from example_events import example_event
from klarm.delivery import Outbox
from klarm.journal import Step
from klarm.types import Event, Moved
from klarm.wording import event_text


def opening(**more: object) -> Event:
    facts = {"incident": 1, "signal": "gradient", "metric": "learning_rate", "id": "kaaaaaaa"}
    return example_event("opened", step=228, started=223, **{**facts, **more})


def write(*events: Event) -> None:
    written(
        [(RUN, []), *((Step(e.step, float(e.step), {"learning_rate": 1.0}), [e]) for e in events)]
    )


@pytest.mark.parametrize(("onset", "shown"), [(204, 204), (220, None), (None, None)])
def test_since_when_is_what_messages_say(onset: int | None, shown: int | None) -> None:
    """The first alert; also when the metric left its range, if that was well before."""
    event = opening(onset=onset)
    write(event)
    with served() as client:
        (found,) = client.get("/runs/a/incidents")["incidents"]
        (run,) = client.get("/runs")["runs"]
    assert (found["started"], found["opened"]) == (223, 228)
    assert run["worst"]["started"] == 223
    assert found["out_of_range_from"] == shown
    said = event_text(event)
    assert "  Since step 223." in said or "  In alert since step 223; " in said
    assert (f"left its normal range at step {shown}." in said) == (shown is not None)


@pytest.mark.parametrize("apart", [1, 10, 2048])
def test_a_hundred_rows_before_an_incident_are_drawn_and_twenty_after(apart: int) -> None:
    """Whatever the step numbers count. The index keeps about a thousand rows in a block."""
    rows = [(Step(apart * row, float(row), {"learning_rate": 1.0}), []) for row in range(2_400)]
    event = replace(opening(), step=apart * 1_028, started=apart * 1_023)
    rows[1_028] = (rows[1_028][0], [event])
    written([(RUN, []), *rows])
    with served() as client:
        moved = client.get("/runs/a/incidents/kaaaaaaa")["moved"]
    assert (moved["from"], moved["to"]) == (apart * 923, apart * 1_048)


def test_a_message_is_about_late_rows_and_not_about_late_steps() -> None:
    """Five rows are not well before, even if they are fifty steps."""
    assert "range" not in event_text(opening(onset=173, onset_rows=5))
    assert "left its normal range at step 173." in event_text(opening(onset=173, onset_rows=6))


def test_an_incident_is_named_by_its_metric() -> None:
    """A learning rate that jumped is no trouble of the gradients."""
    write(opening())
    with served() as client:
        (found,) = client.get("/runs/a/incidents")["incidents"]
        (run,) = client.get("/runs")["runs"]
    assert (found["metric"], run["worst"]["metric"]) == ("learning_rate", "learning_rate")


def test_an_incident_keeps_its_name_when_another_metric_escalates_it() -> None:
    """The page, the API and a message name it alike."""
    began = opening(subject="learning_rate")
    write(began, replace(began, event="escalated", reason="new_kind", step=300, metric="grad_norm"))
    with served() as client:
        (found,) = client.get("/runs/a/incidents")["incidents"]
        (run,) = client.get("/runs")["runs"]
    assert (found["metric"], found["subject"]) == ("grad_norm", "learning_rate")
    assert run["worst"]["subject"] == "learning_rate"
    assert found["title"].startswith(
        "learning_rate warning, began at step 223 (further alert at step 300)"
    )


def test_what_moved_and_the_diagnosis_say_of_which_moment_they_are() -> None:
    """An escalation says again what has moved; a pattern may have fitted only before."""
    write(
        opening(
            also=(Moved("grad_norm", "up", step=220, ratio=4.0),),
            pattern="gradients first",
            cause="c",
            remedy="r",
        ),
        replace(
            opening(also=(Moved("entropy", "down", step=280, ratio=0.2),)),
            event="escalated",
            step=300,
        ),
    )
    with served() as client:
        found = client.get("/runs/a/incidents/kaaaaaaa")
    moved, diagnosis = found["moved"], found["diagnosis"]
    assert (moved["event"], moved["step"], moved["metrics"]) == ("escalated", 300, ["entropy"])
    assert moved["from"] < moved["step"] <= moved["to"]
    assert (diagnosis["event"], diagnosis["step"]) == ("opened", 228)


def test_a_message_about_several_events_is_one_delivery() -> None:
    """The record has a line for each event; they have the same message."""
    events = [opening(), replace(opening(), event="escalated", step=300)]
    write(*events)
    Outbox(RUNS / "a").settle("slack", events, "sent", message="a1")
    with served() as client:
        (delivery,) = client.get("/runs/a/incidents/kaaaaaaa")["deliveries"]
    assert delivery["events"] == [
        {"event": "opened", "step": 228},
        {"event": "escalated", "step": 300},
    ]
    assert (delivery["event"], delivery["step"]) == ("escalated", 300)


def test_the_arithmetic_is_that_of_the_alert_behind_the_last_alarm() -> None:
    """Although the event counts its σ from before the onset, and more alerts followed."""
    rules = {"kl_explosion": {"confirm_steps": 5, "excusable": False}}
    others = {name: {"enabled": False} for name in ("kl_runaway", "kl_budget")}
    with klarm.init("a", dir="runs", console=False, **rules, **others) as monitor:
        for step in range(158):
            monitor.log({"kl": 0.02 + 0.002 * (step % 3) if step < 150 else 0.4}, step)
    with served() as client:
        (known,) = client.get("/runs/a/incidents")["incidents"]
        found = client.get(f"/runs/a/incidents/{known['id']}")
    assert "before step 150" in found["message"]
    (alarm,) = [entry for entry in found["timeline"] if entry["event"] == "opened"]
    assert (found["arithmetic"]["detector"], found["arithmetic"]["step"]) == ("kl_explosion", 154)
    assert alarm["step"] == 154
