"""Recovery: an incident that goes quiet is not one that ends well."""

from __future__ import annotations

import math
import random

from klarm.detectors import (
    CATALOGUE,
    KLRunawayDetector,
    RewardCollapseDetector,
    RewardDriftDetector,
)
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.recovery import Course
from klarm.incidents.rules import IncidentRules
from klarm.journal.file import MemoryJournal
from klarm.metrics.kl_kind import Origin
from klarm.monitor.evaluator import Evaluator
from klarm.monitor.monitor import Monitor
from klarm.types import Event

STEADY = [0.02 + 0.001 * (step % 3) for step in range(100)]
HIGH = [25.0 * value for value in STEADY]


def quiet_events(values: list[float], metric: str = "kl") -> list[Event]:
    """Return what is said of incidents on a metric once they are quiet."""
    detectors = [KLRunawayDetector(), RewardCollapseDetector(), RewardDriftDetector()]
    made = Evaluator(detectors, IncidentRules())
    made.bind({metric: Origin(metric)})
    looks = [made.look(step, {metric: value})[1] for step, value in enumerate(values)]
    events = [event for changes in looks for event in changes if isinstance(event, Event)]
    return [event for event in events if event.event in ("settled", "resolved")]


def spelt(events: list[Event]) -> list[str]:
    return [event.reason for event in events]


def test_staying_at_a_broken_level_is_not_a_recovery() -> None:
    """The detector got used to it."""
    (settled,) = quiet_events(STEADY + HIGH * 4)
    assert settled.event == "settled"
    assert (settled.level, settled.before) == (0.525, 0.021)
    assert settled.peak == max(HIGH)


def test_it_recovers_when_the_metric_is_back_at_its_level() -> None:
    """KL is what it was before."""
    (end,) = quiet_events(STEADY + [0.5] * 20 + STEADY)
    assert (end.reason, end.rows) == ("recovered", 20)


def test_an_incident_after_a_lasting_level_does_not_recover_at_that_level() -> None:
    """What was normal is what it was before all of it."""
    first, superseded, second = quiet_events(STEADY + HIGH * 4 + [50.0] * 30 + HIGH)
    assert spelt([first, superseded, second]) == ["settled", "superseded", "settled"]
    assert (second.before, second.peak) == (0.021, 50.0)


def test_a_fall_that_is_detected_late_is_compared_with_the_level_before_it() -> None:
    """A detector that waits to be sure has seen many low values by then."""
    rng = random.Random(2)
    values = [0.6 + rng.gauss(0, 0.01) for _ in range(200)]
    values += [0.2 + rng.gauss(0, 0.01) for _ in range(400)]
    (settled,) = quiet_events(values, "reward")
    assert settled.reason == "settled"
    assert settled.before is not None
    assert 0.59 < settled.before < 0.61


def monitored(rows: list[float], back_at: int | None = None) -> list[Event]:
    """Log rows, with a step back to an earlier state on the way; return the events."""
    events: list[Event] = []
    watched = Monitor("a", [KLRunawayDetector()], MemoryJournal())
    watched.on_event.append(events.append)
    for step, value in enumerate(rows):
        watched.log({"kl": value}, step)
        if step == back_at:
            watched.resume(step + 1)
    return events


def test_a_reward_that_rose_before_it_fell_is_not_back_half_way() -> None:
    """The median of the whole run before is far below where it fell from."""
    noise = random.Random(0)
    rising = [0.1 + 0.6 * step / 250 for step in range(250)]
    values = [level + noise.gauss(0.0, 0.01) for level in [*rising, *[0.3] * 40, *[0.4] * 100]]
    assert spelt(quiet_events(values, "reward"))[0] == "settled"
    values = [level + noise.gauss(0.0, 0.01) for level in [*rising, *[0.3] * 40, *[0.68] * 100]]
    assert spelt(quiet_events(values, "reward"))[0] == "recovered"


def test_the_level_before_is_known_after_a_rollback() -> None:
    """A run that goes on says the same as one that never stopped."""
    rows = STEADY + HIGH * 4
    straight, resumed = monitored(rows), monitored(rows, back_at=130)
    for one, other in zip(straight, resumed, strict=True):
        assert (one.event, one.step, one.before) == (other.event, other.step, other.before)
    assert resumed[-1].reason == "settled"


def test_an_undone_incident_is_removed() -> None:
    """Wherever its metric is."""
    events: list[Event] = []
    watched = Monitor("a", [kind() for kind in CATALOGUE], MemoryJournal())
    watched.on_event.append(events.append)
    for step, value in enumerate(STEADY + [0.5] * 8):
        watched.log({"kl": value}, step)
    watched.resume(100)
    assert (events[-1].event, events[-1].reason) == ("resolved", "rolled_back")
    assert watched.incidents == []


def test_a_reward_that_rose_need_not_come_down() -> None:
    """The rise may be worth an alarm; that it stays is nothing to recover from."""
    recent = RecentRows()
    for step in range(150):
        recent.add(step, {"reward": 0.4 if step < 100 else 0.9})
    rise = Course(("reward", "higher"), 100, 0.9, by_level=True)
    fall = Course(("reward", "lower"), 100, 0.9, by_level=True)
    for course in (rise, fall):
        course.measure_normal(recent)
    assert rise.is_back(recent)
    assert not fall.is_back(recent)


def test_a_nan_in_between_is_not_a_recovery() -> None:
    """The worst that can be measured counts."""
    (settled,) = quiet_events(STEADY + HIGH[:30] + [math.nan] + HIGH * 4)
    assert settled.reason == "settled"
    assert settled.before == 0.021


def test_a_nan_during_healthy_growth_ends_when_it_has_passed() -> None:
    """The growth is nothing to recover from."""
    growing = [0.01 * 1.002**step for step in range(400)]
    growing[350] = math.nan
    assert spelt(quiet_events(growing)) == ["recovered"]
