"""Incidents as alerts in a tracker: training never waits for one that hangs or fails."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import pytest

from klarm import api
from klarm.integrations.base import is_replaced
from klarm.integrations.tracker_alerts import Tracker, attach
from klarm.types import Event


def test_an_alert_is_sent_by_another_thread_with_the_run_of_this_one() -> None:
    """The run that is under way when the incident opens; its end is no alert."""
    sent: list[tuple[Any, str, str]] = []

    def send(run: Any, event: Event) -> None:
        sent.append((run, event.event, threading.current_thread().name))

    monitor = api.init("a", console=False)
    attach(monitor, Tracker("T", lambda: "the run", send))
    monitor.log({"kl": math.nan})
    for _ in range(30):
        monitor.log({"kl": 0.1})
    monitor.finish()
    assert sent == [("the run", "opened", "klarm-T-alerts")]


def test_without_a_run_of_the_tracker_there_is_no_alert() -> None:
    """And no thread."""
    monitor = api.init("a", console=False)
    attach(monitor, Tracker("T", lambda: None, lambda *_: pytest.fail("sent")))
    monitor.log({"kl": math.nan})
    assert "klarm-T-alerts" not in [thread.name for thread in threading.enumerate()]


def test_a_tracker_that_hangs_does_not_hold_training_up() -> None:
    """What it has not taken waits, within a limit, and is sent once it takes alerts again."""
    goes_on = threading.Event()
    sent: list[str] = []

    def send(_run: Any, event: Event) -> None:
        goes_on.wait()
        sent.append(event.signal)

    monitor = api.init("a", console=False)
    attach(monitor, Tracker("T", lambda: "the run", send))
    monitor.log({"kl": math.nan}, 1)
    monitor.log({"loss": math.nan}, 2)
    assert sent == []
    goes_on.set()
    monitor.finish()
    assert sent == ["kl", "loss"]


def test_the_end_of_a_run_waits_no_longer_than_it_may() -> None:
    """Though the tracker still hangs."""
    never = threading.Event()
    monitor = api.init("a", console=False)
    attach(monitor, Tracker("T", lambda: "the run", lambda *_: never.wait()))
    monitor.log({"kl": math.nan})
    monitor.finish(timeout=0.2)
    never.set()
    assert '"type":"finish"' in Path("klarm_runs/a/journal.jsonl").read_text()


def test_a_tracker_that_fails_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Each later alert is tried all the same."""

    def send(*_: Any) -> None:
        raise RuntimeError("no such run")

    monitor = api.init("a")
    attach(monitor, Tracker("T", lambda: "the run", send))
    monitor.log({"kl": math.nan}, 1)
    monitor.log({"loss": math.nan}, 2)
    monitor.finish()
    said = capsys.readouterr().err
    assert said.count("T took no alert: RuntimeError: no such run") == 1
    assert "once more: alerts in T" in said


def test_a_run_that_began_later_takes_the_place_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Which is said once."""
    first = api.init("a")
    assert not is_replaced(first, "T")
    api.init("b")
    assert is_replaced(first, "T")
    assert is_replaced(first, "T")
    said = capsys.readouterr().err
    assert said.count("logged to T is no longer watched as run a: run b has started since") == 1
