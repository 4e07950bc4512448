"""Recovery: an incident that goes quiet is not one that ends well."""

from __future__ import annotations

import math
import random

import pytest

from klarm.detectors import (
    CATALOGUE,
    GradientNormSpikeDetector,
    KLExplosionDetector,
    KLRunawayDetector,
    RewardCollapseDetector,
    RewardDriftDetector,
)
from klarm.incidents.measured import Measured
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.recovery import Course, stays_away
from klarm.incidents.rules import IncidentRules
from klarm.journal.file import MemoryJournal
from klarm.metrics.kl_kind import Origin
from klarm.monitor.evaluator import Evaluator
from klarm.monitor.monitor import Monitor
from klarm.testing import events_of
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


def ramp(first: float, last: float, rows: int) -> list[float]:
    return [first + (last - first) * (row + 1) / rows for row in range(rows)]


def slow_fall(seed: int, end: list[float]) -> list[dict[str, float]]:
    """Return a reward that climbs to 0.55, falls to 0.4 over 70 rows while KL rises, and an end."""
    noise = random.Random(seed)
    rewards = [*ramp(0.3, 0.55, 150), *ramp(0.55, 0.4, 70), *end]
    kls = [*[0.02] * 150, *ramp(0.02, 0.026, 70), *[0.026] * len(end)]
    return [
        {"reward": reward + noise.gauss(0.0, 0.02), "kl": kl * math.exp(noise.gauss(0.0, 0.08))}
        for reward, kl in zip(rewards, kls, strict=True)
    ]


def reward_ends(rows: list[dict[str, float]]) -> list[Event]:
    """Return how the incidents on the reward went on, with all detectors."""
    events: list[Event] = []
    watched = Monitor("a", [kind() for kind in CATALOGUE], MemoryJournal())
    watched.on_event.append(events.append)
    for step, row in enumerate(rows):
        watched.log(row, step)
    kept = [event for event in events if event.subject == "reward"]
    assert kept[0].event == "opened"
    return [event for event in kept if event.event in ("settled", "resolved")]


def test_a_reward_that_fell_slowly_is_not_back_at_a_level_inside_the_fall() -> None:
    """Its first alert comes when most of the fall is over, but it says from where it fell."""
    for seed in range(5):
        for end in (ramp(0.4, 0.44, 120), [0.42] * 120):
            (settled,) = reward_ends(slow_fall(seed, end))
            assert settled.reason == "settled"
            assert settled.before is not None
            assert 0.51 < settled.before < 0.59


def test_a_reward_that_fell_slowly_and_came_back_has_recovered() -> None:
    """It is back where it was before the fall."""
    for seed in range(5):
        end = reward_ends(slow_fall(seed, [*[0.4] * 40, *ramp(0.4, 0.54, 30), *[0.54] * 120]))[-1]
        assert end.reason == "recovered"
        assert end.before is not None
        assert 0.51 < end.before < 0.59


def test_a_reward_that_was_lost_slowly_is_compared_with_its_best_level() -> None:
    """The best level is from before the rows that are kept."""
    noise = random.Random(0)
    levels = [*ramp(0.1, 0.6, 100), *[0.6] * 60, *ramp(0.6, 0.1, 400), *[0.32] * 150]
    values = [level + noise.gauss(0.0, 0.01) for level in levels]
    last = quiet_events(values, "reward")[-1]
    assert last.reason == "settled"
    assert last.before is not None
    assert 0.58 < last.before < 0.62


def test_a_kl_that_grew_slowly_is_not_back_at_a_level_inside_the_growth() -> None:
    """The slow test of kl_runaway compares with the level half-way through the run."""
    detector, noise = KLRunawayDetector(), random.Random(7)
    levels = [0.05 * 10.0 ** (max(step - 1000, 0) / 1500) for step in range(2500)]
    rows = [(step, level * math.exp(noise.gauss(0, 0.3))) for step, level in enumerate(levels)]
    alerts = [detector.update(step, {"kl": value}) for step, value in rows]
    alert = next(alert for alert in alerts if alert is not None)
    assert "in the second half of the run" in alert.message
    measured = Measured.of(alert, detector)
    assert 0.04 < measured.came_from < 0.06
    recent = RecentRows()
    for step, value in rows[: alert.step]:
        recent.add(step, {"kl": value})
    course = Course(measured.kind, alert.step, rows[alert.step][1], by_level=True)
    course.measure_normal(recent)
    inside = course.normal
    course.note_came_from(measured.came_from)
    for level, is_back in ((inside, False), (0.05, True)):
        for step in range(alert.step, alert.step + 10):
            recent.add(step, {"kl": level})
        assert course.is_back(recent) is is_back


def test_the_normal_level_is_from_before_the_onset() -> None:
    """The rows between the onset and the first alert belong to the trouble."""
    recent = RecentRows()
    for step in range(130):
        recent.add(step, {"loss": 1.0 if step < 30 else 4.0 if step < 120 else 16.0})
    course = Course(("loss", "higher"), 120, 16.0, by_level=True)
    course.measure_normal(recent)
    assert course.normal == 4.0
    course.measure_before(recent, onset=30)
    assert (course.normal, course.shown_before) == (1.0, 1.0)


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


def test_a_nan_in_a_kl_that_grows_by_learning_is_over_when_it_has_passed() -> None:
    """No alert but that of the NaN: the level is what the run has learnt."""
    for at in (50, 120):
        growing = [0.3 * (step / 300) ** 1.5 for step in range(300)]
        growing[at] = math.nan
        (end,) = quiet_events(growing)
        assert (end.reason, end.step, end.rows) == ("recovered", at + 20, 20)


def test_a_nan_after_which_kl_is_in_alert_at_a_high_level_is_not_over_when_it_has_passed() -> None:
    """Other alerts have joined it."""
    values = [*STEADY, math.nan, *HIGH * 4]
    assert spelt(quiet_events(values)) == ["settled"]


def falling_reward() -> list[float]:
    """Return a noisy reward that falls from 0.58 to 0.1, once to 0.01, and stays there."""
    noise = random.Random(0)
    levels = [0.58] * 150 + [0.58 - 0.02 * row for row in range(25)] + [0.1] * 400
    values = [level + noise.gauss(0.0, 0.03) for level in levels]
    values[180] = 0.01
    return values


def test_a_reward_that_stays_down_has_not_recovered() -> None:
    """As a ratio, 0.1 is nearer to 0.58 than to the lowest single row."""
    assert spelt(quiet_events(falling_reward(), "reward")) == ["settled"]


def test_the_level_before_a_fall_is_not_one_inside_the_fall() -> None:
    """The onset in hindsight may be some rows late."""
    (settled,) = quiet_events(falling_reward(), "reward")
    assert settled.before is not None
    assert 0.55 < settled.before < 0.61


def test_the_level_before_a_rise_of_the_reward_is_not_one_inside_the_rise() -> None:
    """The onset in hindsight may be some rows late, because a reward is noisy."""
    recent = RecentRows()
    for step in range(170):
        recent.add(step, {"reward": 1.84 + 0.1 * max(step - 150, 0)})
    course = Course(("reward", "higher"), 165, 3.34, by_level=True)
    course.measure_before(recent, onset=156)
    assert course.before == 1.84


def test_one_extreme_row_is_not_the_level_of_the_trouble() -> None:
    """A metric that has stayed where the trouble was is not back because one row was far worse."""
    for metric, worse, before, broken, extreme in (
        ("reward", "lower", 0.58, 0.1, -3.0),
        ("kl", "higher", 0.02, 0.5, 50.0),
    ):
        recent = RecentRows()
        for step in range(150):
            recent.add(step, {metric: before if step < 100 else broken})
        course = Course((metric, worse), 100, broken, by_level=True)
        for step in range(101, 110):
            course.add(extreme if step == 104 else broken, step)
        course.measure_normal(recent)
        assert not course.is_back(recent)


def test_a_short_trouble_is_over_when_the_metric_is_back() -> None:
    """Few rows in alert are its level, too."""
    recent = RecentRows()
    for step in range(150):
        recent.add(step, {"kl": 0.5 if 100 <= step < 103 else 0.02 if step < 100 else 0.03})
    course = Course(("kl", "higher"), 100, 0.5, by_level=True)
    course.add(0.5, 101)
    course.measure_normal(recent)
    assert course.is_back(recent)


def test_a_fraction_is_compared_by_differences_and_a_kl_by_ratios() -> None:
    """A KL of 5 is not back from 50 at 0.02; 40 % clipped is back from 90 % at 10 %."""
    assert stays_away(5.0, 0.02, 50.0, ("kl", "higher"))
    assert not stays_away(0.4, 0.1, 0.9, ("clip_fraction", "higher"))
    assert stays_away(0.4, 2.0, 0.02, ("entropy", "lower"))
    # Of a metric that klarm does not know, it assumes the stricter one.
    assert stays_away(5.0, 0.02, 50.0, ("my_kl", "higher"))
    assert stays_away(0.4, 2.0, 0.02, ("my_entropy", "lower"))


def test_a_pause_between_two_checks_of_a_detector_is_no_end() -> None:
    """reward_drift compares blocks of 25 rows; one of them may interrupt a drift that goes on."""
    made = Evaluator([RewardDriftDetector()], IncidentRules())
    made.bind({name: Origin(name) for name in ("reward", "length")})
    rewards = (0.5, 0.6, 0.7, 0.8, 0.75, 0.9, 0.9, 0.9, 0.9)  # the fifth goes down
    changes = [
        change
        for step in range(25 * len(rewards))
        for change in made.look(
            step, {"reward": rewards[step // 25], "length": 10.0 * 2.0 ** (step // 25)}
        )[1]
    ]
    events = [change for change in changes if isinstance(change, Event)]
    assert [(event.event, event.step) for event in events] == [("opened", 99), ("resolved", 223)]
    assert events[-1].rows == 50


def test_a_reward_of_nan_is_over_after_the_usual_number_of_rows() -> None:
    """Such an alert does not wait for the next check of reward_drift, so it does not pause."""
    rewards = [0.5 + 0.01 * (step % 3) for step in range(200)]
    rewards[120] = math.nan
    (end,) = quiet_events(rewards, "reward")
    assert (end.reason, end.rows) == ("recovered", 20)


def test_the_level_before_a_slow_rise_is_the_baseline_that_the_detector_compared_with() -> None:
    """The incident opens late in the rise, so the rows before it are inside the rise."""
    noise = random.Random(7)
    journal = MemoryJournal()
    watched = Monitor("a", [GradientNormSpikeDetector()], journal)
    for step in range(300):
        growth = 2.0 - math.exp(-max(0, step - 180) / 40)
        watched.log({"grad_norm": 0.5 * growth * noise.lognormvariate(0.0, 0.2)}, step=step)
    opened = next(r for r in journal.records if isinstance(r, Event) and r.event == "opened")
    assert opened.before is not None
    assert f"first 100 values, {opened.before:.4g} ±" in opened.message


def test_a_frozen_baseline_of_kl_is_the_level_that_it_must_come_back_to() -> None:
    """It is near it when the alerts stop, so the incident recovers as it did."""
    values = [0.02, 0.021] * 60 + [0.08] * 60 + [0.021, 0.02] * 20
    detector = KLExplosionDetector(baseline_mode="frozen", confirm_steps=5)
    *_, end = events_of(detector, values)
    assert (end.event, end.reason, end.before) == ("resolved", "recovered", pytest.approx(0.0205))
