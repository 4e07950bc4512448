"""A crash as an incident: what is said of it, and that no other incident is taken for it."""

from __future__ import annotations

import pytest

import klarm
from klarm.delivery.repeats import Repeats
from klarm.incidents import is_crash
from klarm.incidents.crash import crash_event
from klarm.integrations.notice import worth_an_alert
from klarm.journal import Fold
from klarm.wording import headline, title, why


def test_a_crash_is_described_in_one_line() -> None:
    """Somebody may be woken by it."""
    event = crash_event(812, "RuntimeError: out of memory", "id", 1, "")
    assert title(event) == "crashed after step 812"
    assert headline(event) == "The run crashed after step 812: RuntimeError: out of memory"
    assert why(event) == "An exception ended the training."


def test_nobody_is_reminded_of_a_crash() -> None:
    """The run is over, and whether it goes on is somebody's decision."""
    repeats = Repeats(3600.0, "critical")
    repeats.note([crash_event(812, "", "id", 1, "")])
    assert repeats.next(1e9, lambda _: 0.0) is None


def test_trackers_get_no_alert_of_a_crash() -> None:
    """Their run may have ended before."""
    assert not worth_an_alert(crash_event(812, "", "id", 1, ""))


def test_a_metric_that_is_lost_is_another_incident_than_the_crash() -> None:
    """Both are on liveness."""
    monitor = klarm.init("a", console=False)
    for step in range(10):
        monitor.log({"kl": 0.1 + 0.001 * step, "entropy": 1.0 - 0.001 * step}, step)
    with pytest.raises(RuntimeError), monitor:
        raise RuntimeError
    monitor = klarm.init("a", console=False, metric_lost={"missing_steps": 5})
    for step in range(10, 40):
        monitor.log({"kl": 0.1 + 0.001 * step}, step)
    monitor.finish()
    assert monitor.folder is not None
    fold = Fold(monitor.folder / "journal.jsonl")
    fold.update()
    crash, lost = fold.incidents.values()
    assert is_crash(crash.opened)
    assert (crash.state, crash.reason, crash.number) == ("resolved", "resumed", 1)
    assert (lost.signal, lost.state, lost.number) == ("liveness", "ended", 2)
