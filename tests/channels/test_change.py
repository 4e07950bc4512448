"""A change of an incident, as programs get it."""

from __future__ import annotations

from example_events import example_event
from klarm.channels.change import change_of


def test_a_change_has_its_own_numbers_and_its_own_reason() -> None:
    """Whatever else the message is about."""
    change = change_of(example_event("opened", step=17, rows=5), 1000.0, "5e1f")
    assert (change.event, change.step, change.time, change.change_id) == (
        "opened", 17, 1000.0, "5e1f",
    )  # fmt: skip
    assert (change.reason, change.why) == ("confirmed", "In alert for 5 consecutive rows.")
    assert change.summary == "KL is high."


def test_the_texts_of_a_change_are_lines() -> None:
    """They may come from a detector, or a journal, of somebody else."""
    change = change_of(example_event(message="a\r\nb", reason="it\x1b[31m opened"), 0.0)
    assert (change.summary, change.why) == ("a b", "it [31m opened.")
