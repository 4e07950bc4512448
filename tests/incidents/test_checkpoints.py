"""Which checkpoint to go back to when a run goes wrong."""

from __future__ import annotations

import json
import math
import random
import shutil
from pathlib import Path

import pytest

import klarm
from klarm.detectors import (
    GradientNormSpikeDetector,
    KLBudgetDetector,
    LossNanDetector,
    RewardCollapseDetector,
)
from klarm.incidents.checkpoints import unsafe_since
from klarm.integrations import notice
from klarm.monitor.monitor import Monitor
from klarm.types import Event
from klarm.wording import advice, event_text

pytestmark = pytest.mark.usefixtures("one_detector")


def saved(folder: str) -> None:
    """Make a folder as a trainer does that saves its state."""
    Path(folder).mkdir(exist_ok=True)
    Path(folder, "state").touch()


def train(monitor: Monitor, first: int, last: int, bad: int | None = None) -> None:
    """Log steps, save every tenth, and have a NaN at one."""
    for step in range(first, last + 1):
        monitor.log({"kl": math.nan if step == bad else 0.5 + step % 2 / 10}, step)
        if step % 10 == 0:
            saved(f"checkpoint-{step}")
            monitor.checkpoint(step, f"checkpoint-{step}")


def test_the_last_checkpoint_before_the_first_alert_is_named() -> None:
    """When it opens: to the listener, in the journal, on the console and in the tracker."""
    monitor, events = klarm.init("a", console=False), list[Event]()
    monitor.on_event.append(events.append)
    train(monitor, 1, 45, bad=38)
    assert monitor.last_good_checkpoint(monitor.incidents[0]) == (30, "checkpoint-30")
    assert [event.checkpoint for event in events] == ["checkpoint-30"]
    assert "\n  Last good checkpoint: checkpoint-30" in event_text(events[0])
    assert "\nLast good checkpoint: checkpoint-30" in notice.text(events[0])
    lines = Path("klarm_runs/a/journal.jsonl").read_text().splitlines()
    (event,) = [line for line in map(json.loads, lines) if line["type"] == "event"]
    assert event["checkpoint"] == "checkpoint-30"


def test_a_checkpoint_that_was_deleted_or_saved_during_an_incident_is_not_good() -> None:
    """Trainers keep the last few only, and an integration saves what has gone wrong."""
    monitor = klarm.init("a", console=False)
    train(monitor, 1, 45, bad=38)  # step 40 is within it
    train(monitor, 46, 48, bad=47)  # still the same
    train(monitor, 49, 69)
    (first,) = monitor.incidents
    assert (first.state, first.ended) == ("resolved", 67)
    monitor.log({"kl": math.nan}, 70)
    assert monitor.last_good_checkpoint(monitor.critical[0]) == (30, "checkpoint-30")
    shutil.rmtree("checkpoint-30")
    assert monitor.last_good_checkpoint(monitor.critical[0]) == (20, "checkpoint-20")


def test_a_checkpoint_that_the_trainer_deleted_is_not_named() -> None:
    """It is seen when the next one is saved: an incident does not wait for a disk."""
    monitor, events = klarm.init("a", console=False), list[Event]()
    monitor.on_event.append(events.append)
    train(monitor, 1, 20)
    shutil.rmtree("checkpoint-20")
    train(monitor, 21, 30)
    shutil.rmtree("checkpoint-30")
    monitor.checkpoint(35, "checkpoint-35")
    monitor.log({"kl": math.nan}, 32)
    assert [event.checkpoint for event in events] == ["checkpoint-10"]


def test_one_that_was_written_over_holds_the_later_step_only() -> None:
    """As `latest.pt` or SB3's `best_model.zip`, in a process that takes the run up as well."""
    monitor = klarm.init("a", console=False)
    train(monitor, 1, 15)
    saved("best")
    monitor.checkpoint(15, "best")
    train(monitor, 16, 19)
    monitor.log({"kl": math.nan}, 20)
    assert monitor.last_good_checkpoint(monitor.critical[0]) == (15, "best")
    monitor.checkpoint(21, "best")
    assert monitor.last_good_checkpoint(monitor.critical[0]) == (10, "checkpoint-10")
    klarm.finish()
    again = klarm.init("a", console=False)
    again.log({"kl": math.nan}, 22)
    assert again.last_good_checkpoint(again.critical[0]) == (10, "checkpoint-10")


def test_a_checkpoint_on_another_machine_is_trusted() -> None:
    """In a bucket, say."""
    monitor = klarm.init("a", console=False)
    monitor.checkpoint(1, "s3://bucket/checkpoint-1")
    train(monitor, 2, 4, bad=3)
    assert monitor.last_good_checkpoint(monitor.critical[0]) == (1, "s3://bucket/checkpoint-1")


def test_without_checkpoints_none_is_named() -> None:
    """Nor one from after the first alert."""
    monitor = Monitor("a", klarm.init("b", console=False).detectors)
    train(monitor, 8, 12, bad=9)
    assert monitor.last_good_checkpoint(monitor.critical[0]) is None


def test_the_next_process_knows_the_checkpoints() -> None:
    """Those that a rollback undid are not."""
    train(klarm.init("a", console=False), 1, 45)
    klarm.finish()
    monitor = klarm.init("a", console=False)
    train(monitor, 21, 26, bad=25)
    assert monitor.last_good_checkpoint(monitor.critical[0]) == (20, "checkpoint-20")
    train(monitor, 22, 29)
    monitor.log({"kl": math.nan}, 50)
    assert monitor.last_good_checkpoint(monitor.critical[0]) == (20, "checkpoint-20")


def fall(monitor: Monitor, metric: str, *levels: tuple[int, float]) -> None:
    """Log a metric that has a level for so many steps, then another; save every tenth."""
    rng, step = random.Random(1), 0
    for count, level in levels:
        for _ in range(count):
            monitor.log({metric: level * rng.lognormvariate(0, 0.02)}, step)
            if step % 10 == 0:
                monitor.checkpoint(step, f"s3://bucket/{step}")
            step += 1


def test_a_checkpoint_saved_after_the_metric_began_to_move_is_not_good() -> None:
    """The first alert may come long after: a detector that waits to be sure is late."""
    monitor = Monitor("a", [RewardCollapseDetector()])
    fall(monitor, "reward", (305, 0.6), (60, 0.2))
    (incident,) = monitor.incidents
    assert incident.started > 310
    assert monitor.last_good_checkpoint(incident) == (300, "s3://bucket/300")


def test_a_checkpoint_saved_after_an_incident_without_recovery_is_not_good() -> None:
    """It went quiet, since its detector got used to it; the run is as broken as it was."""
    monitor = Monitor("a", [RewardCollapseDetector(), LossNanDetector()])
    fall(monitor, "reward", (305, 0.6), (200, 0.2))
    monitor.log({"loss": math.nan}, 505)
    quiet, broken = monitor.incidents
    assert quiet.state == "settled"
    assert quiet.started > 310  # the fall was before
    assert monitor.last_good_checkpoint(broken) == (300, "s3://bucket/300")


def test_checkpoints_are_good_again_after_the_metric_has_recovered() -> None:
    """Though its incident ended without recovery."""
    monitor = Monitor("a", [RewardCollapseDetector(), LossNanDetector()])
    fall(monitor, "reward", (305, 0.6), (200, 0.2), (100, 0.6))
    monitor.log({"loss": math.nan}, 605)
    assert monitor.last_good_checkpoint(monitor.incidents[-1]) == (600, "s3://bucket/600")


def test_a_checkpoint_that_cannot_be_loaded_is_not_named_but_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The disk was full while the trainer saved: whoever goes back there finds out too late."""
    monitor, events = klarm.init("a", console=False), list[Event]()
    monitor.on_event.append(events.append)
    train(monitor, 1, 29)
    saved("checkpoint-30")
    Path("checkpoint-30/model.safetensors").write_bytes(b"cut")
    monitor.checkpoint(30, "checkpoint-30")
    monitor.log({"kl": math.nan}, 31)
    assert monitor.last_good_checkpoint(monitor.critical[0]) == (20, "checkpoint-20")
    assert [event.checkpoint for event in events] == ["checkpoint-20"]
    assert "checkpoint-30 cannot be loaded (model.safetensors has no valid header)" in caplog.text


def test_a_checkpoint_that_is_completed_later_is_good() -> None:
    """Some trainers write in the background."""
    monitor = klarm.init("a", console=False)
    monitor.checkpoint(10, "checkpoint-10")
    saved("checkpoint-10")
    monitor.checkpoint(20, "checkpoint-20")
    train(monitor, 21, 25, bad=23)
    assert monitor.last_good_checkpoint(monitor.critical[0]) == (10, "checkpoint-10")


def test_all_unresolved_incidents_name_the_same_first_unsafe_step() -> None:
    """A checkpoint from before the later incident is from inside the earlier one."""
    monitor, events = Monitor("a", [KLBudgetDetector(), LossNanDetector()]), list[Event]()
    monitor.on_event.append(events.append)
    for step in range(120):
        kl = 0.02 if step < 60 else 20.0
        monitor.log({"kl": kl, "loss": 0.1 if step < 100 else math.nan}, step)
    monitor.finish()
    ended = [event for event in events if event.event == "ended"]
    assert [event.signal for event in ended] == ["kl", "loss"]
    assert {unsafe_since(event) for event in ended} == {60}


def test_a_warning_beside_a_critical_incident_does_not_call_its_checkpoints_usable() -> None:
    """Someone who reads only the warning must not get the weaker advice."""
    detectors = [KLBudgetDetector(), GradientNormSpikeDetector()]
    monitor, events = Monitor("a", detectors), list[Event]()
    monitor.on_event.append(events.append)
    for step in range(200):
        kl, norm = (0.02, 0.5 + 0.05 * (step % 3)) if step < 150 else (20.0, 0.7)
        monitor.log({"kl": kl, "grad_norm": norm}, step)
    monitor.finish()
    ended = {event.signal: event for event in events if event.event == "ended"}
    assert {event.severity for event in ended.values()} == {"critical", "warning"}
    for event in ended.values():
        assert advice(event)[0].startswith("Do not use checkpoints that were saved since step 150")
