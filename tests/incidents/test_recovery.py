"""Recoveries: an incident that goes quiet is not one that ends well."""

from __future__ import annotations

import math
import random

import msgspec

from klarm.detectors import (
    CATALOGUE,
    KLRunawayDetector,
    RewardCollapseDetector,
    RewardDriftDetector,
)
from klarm.incidents.recovery import Recoveries
from klarm.incidents.text import event_text, incidents_in_sum
from klarm.incidents.tracker import IncidentRules
from klarm.incidents.trends import RecentRows
from klarm.journal.file import MemoryJournal
from klarm.metrics.kl_kind import Origin
from klarm.monitor.evaluator import Watch
from klarm.monitor.monitor import Monitor
from klarm.types import ROLLED_BACK, Event

STEADY = [0.02 + 0.001 * (step % 3) for step in range(100)]


def ends_of(values: list[float], metric: str = "kl") -> list[Event]:
    """Return how incidents on a metric end."""
    made = Watch([KLRunawayDetector(), RewardCollapseDetector()], IncidentRules())
    made.bind({metric: Origin(metric)})
    looks = [made.look(step, {metric: value})[1] for step, value in enumerate(values)]
    events = [event for changes in looks for event in changes if isinstance(event, Event)]
    return [event for event in events if event.event == "resolved"]


def test_an_end_that_is_no_recovery_is_called_so() -> None:
    """The detector got used to a level that is as bad as ever."""
    (end,) = ends_of(STEADY + [25.0 * value for value in STEADY * 4])
    assert end.reason == "20 quiet steps, but kl stays at 0.525 (before 0.021, worst 0.55)"
    assert not end.recovered


def test_a_recovery_is_just_an_end() -> None:
    """KL is back where it was."""
    (end,) = ends_of(STEADY + [0.5] * 20 + STEADY)
    assert (end.reason, end.recovered) == ("20 quiet steps", True)


def test_the_next_incident_on_a_level_that_stayed_is_no_recovery_either() -> None:
    """What was normal is what it was before all of it."""
    high = [25.0 * value for value in STEADY]
    first, second = ends_of(STEADY + high * 4 + [50.0] * 30 + high)
    assert not first.recovered
    assert "(before 0.021, worst 50)" in second.reason
    assert not second.recovered


def test_a_fall_that_is_found_late_is_measured_by_what_was_before_it() -> None:
    """A detector that waits to be sure has seen many low values by then."""
    rng = random.Random(2)
    values = [0.6 + rng.gauss(0, 0.01) for _ in range(200)]
    values += [0.2 + rng.gauss(0, 0.01) for _ in range(400)]
    (end,) = ends_of(values, "reward")
    assert "(before 0.599" in end.reason
    assert not end.recovered


def monitored(rows: list[float], back_at: int | None = None) -> list[Event]:
    """Log rows, with a step back to an earlier state on the way; return what was told."""
    journal = MemoryJournal()
    watched = Monitor("a", [KLRunawayDetector()], journal)
    for step, value in enumerate(rows):
        watched.log({"kl": value}, step)
        if step == back_at:
            watched.resume(step + 1)
    return [record for record in journal.records if isinstance(record, Event)]


def test_after_a_step_back_it_is_known_what_was_before() -> None:
    """A run that goes on says the same of the end as one that never stopped."""
    rows = STEADY + [25.0 * value for value in STEADY * 4]
    straight, resumed = monitored(rows), monitored(rows, back_at=130)
    assert [e.reason for e in resumed] == [e.reason for e in straight]
    assert resumed[-1].reason.startswith("20 quiet steps, but kl stays")


def test_what_is_undone_is_neither_quiet_nor_recovered() -> None:
    """It never was, wherever its metric is."""
    journal = MemoryJournal()
    watched = Monitor("a", [kind() for kind in CATALOGUE], journal)
    for step, value in enumerate(STEADY + [0.5] * 8):
        watched.log({"kl": value}, step)
    watched.resume(100)
    *_, undone = [record for record in journal.records if isinstance(record, Event)]
    assert (undone.event, undone.reason, undone.recovered) == ("resolved", ROLLED_BACK, True)


def test_a_reward_that_rose_need_not_come_down() -> None:
    """The rise may be worth an alarm; that it stays is nothing to recover from."""
    recent = RecentRows()
    recoveries = Recoveries([RewardDriftDetector()], recent)
    opened = Event(
        event="opened",
        incident=1,
        signal="reward",
        severity="warning",
        step=100,
        started=100,
        detectors=["reward_drift"],
        peak=0.9,
        reason="",
        message="",
        recommendation="",
    )
    for step in range(150):
        recent.add(step, {"reward": 0.4 if step < 100 else 0.9})
    recoveries.follow(opened)
    ended = msgspec.structs.replace(opened, event="resolved", step=149, reason="20 quiet steps")
    assert recoveries.follow(ended).recovered


def test_the_end_of_a_run_names_what_has_not_recovered() -> None:
    """Beside the line when it goes quiet."""
    watched = Monitor("a", [KLRunawayDetector()], MemoryJournal())
    for step, value in enumerate(STEADY + [25.0 * value for value in STEADY * 4]):
        watched.log({"kl": value}, step)
    assert incidents_in_sum(watched.incidents).endswith(", not recovered)")
    (end,) = ends_of(STEADY + [25.0 * value for value in STEADY * 4])
    assert " on kl went quiet at step " in event_text(end)


def test_a_nan_on_the_way_does_not_make_it_a_recovery() -> None:
    """The worst that can be measured counts."""
    high = [25.0 * value for value in STEADY]
    (end,) = ends_of(STEADY + high[:30] + [math.nan] + high * 4)
    assert "but kl stays at 0.525 (before 0.021" in end.reason
    assert not end.recovered


def test_a_nan_while_kl_grows_as_it_should_is_over_when_it_is() -> None:
    """The growth is nothing to recover from."""
    growing = [0.01 * 1.002**step for step in range(400)]
    growing[350] = math.nan
    (end,) = ends_of(growing)
    assert end.recovered
