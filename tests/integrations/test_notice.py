"""The alert about an incident in an experiment tracker."""

from __future__ import annotations

import math

from klarm.detectors import CATALOGUE
from klarm.integrations import notice
from klarm.monitor.monitor import Monitor
from klarm.types import Event


def test_an_incident_reads_as_title_and_text() -> None:
    """It says what happened, since when, the probable cause and what to do. The end is no alert."""
    monitor = Monitor("a", [kind() for kind in CATALOGUE])
    events: list[Event] = []
    monitor.on_event.append(events.append)
    for step, value in enumerate([0.1, math.nan, *[0.1] * 30]):
        monitor.log({"loss": value}, step)
    opened, resolved = events
    assert notice.title(opened) == "klarm: critical on loss (opened, incident 1)"
    text = notice.text(opened)
    assert text.startswith(f"Step 1: {opened.message}\nSince step 1. ")
    assert f"To do: {opened.remedy}" in text
    assert opened.recommendation not in text
    assert [notice.worth_an_alert(event) for event in (opened, resolved)] == [True, False]


def test_every_title_is_short_enough_for_wandb() -> None:
    """It has fewer than 64 characters, even for incident 999 on the longest signal."""
    for kind in CATALOGUE:
        event = Event(
            "escalated", 999, kind.signal, "critical", 1, 1, [], 1.0, "", "", "", "k3f7q2ab"
        )
        assert len(notice.title(event)) < 64
