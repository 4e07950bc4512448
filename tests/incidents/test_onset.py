"""When a metric began to move: made-up courses that begin at step 300."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import median, stdev

import pytest

from cases import over
from klarm.detectors import (
    KLBudgetDetector,
    KLRunawayDetector,
    LearningRateJumpDetector,
    RewardCollapseDetector,
)
from klarm.incidents.checkpoints import unsafe_since
from klarm.incidents.movement import Movement
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.trends import earlier_onset, movements_of
from klarm.monitor.monitor import Monitor
from klarm.types import Event
from klarm.wording import event_text

LEVEL, BEGAN = 0.02, 300
Course = Callable[[int], float]


def recorded(
    course: Course, until: int, seed: int, noise: float = 0.1, **others: Course
) -> RecentRows:
    """Return rows with the KL of a course, with a share of its value as noise."""
    rng, rows = random.Random(seed), RecentRows()
    for step in range(until + 1):
        values = {name: of(step) for name, of in others.items()}
        rows.add(step, {"kl": course(step) * rng.lognormvariate(0.0, noise), **values})
    return rows


def moved(
    course: Course, until: int, seed: int, noise: float = 0.1, **others: Course
) -> dict[str, Movement]:
    """Return how metrics moved."""
    rows = recorded(course, until, seed, noise, **others)
    return {movement.metric: movement for movement in movements_of(rows)}


def ramp(times: float) -> Course:
    return lambda step: LEVEL * (1.0 + times * max(0, step - BEGAN) / 60)


def explosion(e_folding: float) -> Course:
    return lambda step: LEVEL * math.exp(max(0, step - BEGAN) / e_folding)


@over("seed", range(5))
@over("until", [330, 345, 360])
@over(
    "course", [ramp(5.0), ramp(10.0), ramp(50.0), explosion(10.0), explosion(15.0), explosion(25.0)]
)
def test_a_gradual_rise_is_dated_from_its_beginning(course: Course, until: int, seed: int) -> None:
    """However far it has gone by then: a linear quarter of the way dated the last ones at 344."""
    kl = moved(course, until, seed)["kl"]
    assert kl.direction == "up"
    assert kl.step == pytest.approx(BEGAN, abs=10)


@over("seed", range(5))
def test_a_fall_is_dated_from_its_beginning(seed: int) -> None:
    """It is linear or levels off."""
    for course in (
        lambda step: max(0.05, 1.0 - max(0, step - BEGAN) / 50),
        lambda step: math.exp(-max(0, step - BEGAN) / 20),
    ):
        kl = moved(course, 345, seed)["kl"]
        assert (kl.direction, kl.step) == ("down", pytest.approx(BEGAN, abs=15))


@over("seed", range(5))
def test_a_jump_is_dated_by_its_step(seed: int) -> None:
    """Slow growth before it is not part of it."""
    flat = moved(lambda step: LEVEL * (10.0 if step >= BEGAN else 1.0), 320, seed)["kl"]
    grown = moved(
        lambda step: LEVEL * (1.0 + step / 300) * (30.0 if step >= BEGAN else 1.0), 320, seed
    )["kl"]
    assert (flat.step, grown.step) == (BEGAN, BEGAN)


def drift(step: int) -> float:
    """Return the KL of a policy that drifts steadily from step 180 on."""
    return LEVEL * (max(1, step - 180) / 120) ** 2


@over("seed", range(5))
def test_growth_that_goes_on_as_before_is_no_movement(seed: int) -> None:
    """Nothing happened at the step where it is far from its level fifty rows ago."""
    assert not moved(drift, BEGAN, seed, noise=0.01)["kl"].is_worth_saying


@over("seed", range(5))
@over("until", [310, 320])
def test_an_explosion_after_long_growth_is_not_dated_before_it(until: int, seed: int) -> None:
    """The growth before it is not part of it."""
    kl = moved(lambda step: drift(step) * explosion(15.0)(step) / LEVEL, until, seed, noise=0.01)[
        "kl"
    ]
    assert (kl.direction, kl.is_worth_saying) == ("up", True)
    assert BEGAN <= kl.step <= BEGAN + 10


@over("seed", range(10))
def test_an_onset_is_not_dated_on_rows_like_those_before(seed: int) -> None:
    """A reader who looks at the curve sees nothing there."""
    kl = moved(lambda step: 0.9 ** max(0, step - BEGAN), BEGAN + 25, seed)["kl"]
    assert BEGAN <= kl.step <= BEGAN + 8


@pytest.mark.parametrize("end", [-300, 300])
def test_a_trend_over_all_that_a_float_can_hold_raises_nothing(end: int) -> None:
    """Its prediction must not overflow."""
    rows = RecentRows()
    for step in range(100):
        rows.add(step, {"kl": 10.0 ** (-end + 2 * end * step / 99)})
    assert [movement.metric for movement in movements_of(rows)] == ["kl"]


def test_nothing_is_dated_just_before_the_learning_rate_was_raised() -> None:
    """Its step is exact, and the others follow it; a tie is no order."""
    found = moved(
        explosion(15.0), 345, 0, learning_rate=lambda step: 1e-4 if step >= BEGAN + 4 else 1e-6
    )
    assert found["learning_rate"].step == BEGAN + 4
    assert [*found][:2] == ["learning_rate", "kl"]
    assert found["kl"].step >= BEGAN + 4


@over("seed", range(5))
def test_growth_before_the_learning_rate_was_raised_is_not_the_explosion(seed: int) -> None:
    """KL grows from zero while a policy learns. Checkpoints of these rows are safe."""
    rng = random.Random(seed)
    monitor = Monitor("a", [KLRunawayDetector(), LearningRateJumpDetector()])
    events: list[Event] = []
    monitor.on_event.append(events.append)
    for step in range(1, 50):
        kl = 4e-4 * rng.lognormvariate(0.0, 0.2) * 1.09 ** max(0, step - 18)
        kl *= 5.0 ** max(0, step - 42)
        rate = 2e-3 if step >= 42 else 2e-5
        monitor.log({"kl": kl, "learning_rate": rate, "entropy": rng.gauss(0.8, 0.01)}, step)
    opened = {event.signal: event for event in events if event.event == "opened"}
    assert "kl" in opened["gradient"].moved  # its growth is mentioned at the jump
    assert (opened["kl"].onset or 0) >= 42
    assert unsafe_since(opened["kl"]) >= 42


@over("seed", range(5))
@over("late", [75, 90, 120, 140])
@over("course", [ramp(5.0), explosion(15.0), explosion(40.0)])
def test_an_onset_long_before_the_alert_is_found(course: Course, late: int, seed: int) -> None:
    """A hundred rows are too few if the metric was moving in the first half of them."""
    rows = recorded(course, BEGAN + late, seed)
    assert earlier_onset(rows, "kl", "up") == pytest.approx(BEGAN, abs=20)


@over("seed", range(5))
def test_an_early_alert_needs_no_look_further_back(seed: int) -> None:
    """The hundred rows are enough, and nothing changes; nor does it for what has not moved."""
    assert earlier_onset(recorded(explosion(15.0), BEGAN + 30, seed), "kl", "up") is None
    assert earlier_onset(recorded(lambda _: LEVEL, BEGAN + 30, seed), "kl", "up") is None
    assert earlier_onset(recorded(explosion(15.0), 10, seed), "kl", "up") is None
    assert earlier_onset(RecentRows(), "kl", "up") is None


def test_a_metric_that_has_always_grown_has_no_earlier_onset() -> None:
    """There is no level that it could have left."""
    rows = recorded(lambda step: LEVEL * math.exp(step / 40), BEGAN + 30, seed=0)
    assert earlier_onset(rows, "kl", "up") is None


def test_an_incident_that_opens_late_names_the_step_at_which_it_began() -> None:
    """The budget is only exceeded when KL has grown for a hundred rows."""
    rng, events = random.Random(0), list[Event]()
    monitor = Monitor("a", [KLBudgetDetector()])
    monitor.on_event.append(events.append)
    for step in range(450):
        monitor.log({"kl": explosion(30.0)(step) * rng.lognormvariate(0, 0.1)}, step)
    assert events[0].started > BEGAN + 80
    assert events[0].onset == pytest.approx(BEGAN, abs=15)
    said = (
        f"In alert since step {events[0].started}; in hindsight, kl left its "
        f"normal range at step {events[0].onset}."
    )
    assert said in event_text(events[0])


@over("seed", range(20))
def test_an_onset_is_a_row_that_is_itself_unlike_those_before(seed: int) -> None:
    """KL grows slowly, so that its noise alone is far from its level a hundred rows ago."""
    rows = recorded(lambda step: (1.0 + step / 300) * explosion(7.0)(step), 309, seed, 0.12)
    values = {step: row["kl"] for step, row in rows.last(300)}
    dates = [
        moved(lambda step: (1.0 + step / 300) * explosion(7.0)(step), 309, seed, 0.12)["kl"].step
    ]
    earlier = earlier_onset(rows, "kl", "up")
    for onset in [*dates, *([] if earlier is None else [earlier])]:
        before = [values[step] for step in range(onset - 30, onset)]
        assert values[onset] > median(before) + 1.5 * stdev(before)
        assert onset >= BEGAN - 1


@over("seed", range(5))
@over("slope", [-0.01, 0.01])
def test_a_reward_that_moves_by_a_third_of_its_noise_per_row_is_dated_in_time(
    slope: float, seed: int
) -> None:
    """It was dated where it had moved by a quarter of its level or four times its noise."""
    rng, rows = random.Random(seed), RecentRows()
    for step in range(BEGAN + 40):
        rows.add(step, {"reward": 0.6 + slope * max(0, step - BEGAN) + rng.gauss(0.0, 0.03)})
    (reward,) = movements_of(rows)
    assert reward.direction == ("up" if slope > 0.0 else "down")
    assert BEGAN <= reward.step <= BEGAN + 14


@over("seed", range(10))
def test_a_reward_that_falls_slowly_after_it_rose_is_dated_by_its_alert_in_hindsight(
    seed: int,
) -> None:
    """It was dated by its alert, 27 rows late, as it had not gone far enough to count as moved."""
    rng, events = random.Random(seed), list[Event]()
    monitor = Monitor("a", [RewardCollapseDetector()])
    monitor.on_event.append(events.append)
    for step in range(BEGAN + 100):
        fall = 0.008 * max(0, step - BEGAN)
        monitor.log({"reward": 0.35 + 0.001 * min(step, BEGAN) - fall + rng.gauss(0, 0.03)}, step)
    assert events[0].started >= BEGAN + 20
    assert events[0].onset is not None
    assert BEGAN <= events[0].onset <= BEGAN + 14


@pytest.mark.parametrize("metric", ["entropy", "kl", "grad_norm"])
def test_a_slow_fall_is_not_dated_when_it_is_nearly_over(metric: str) -> None:
    """What counts as a movement may be most of its way, so falls were dated 20 to 40 rows late."""
    late = []
    for seed in range(10):
        rng, rows = random.Random(seed), RecentRows()
        for step in range(BEGAN + 45):
            fall = math.exp(-0.02 * max(0, step - BEGAN))
            rows.add(step, {metric: 0.5 * fall * rng.lognormvariate(0.0, 0.07)})
        (movement,) = movements_of(rows)
        assert movement.direction == "down"
        late.append(movement.step - BEGAN)
    assert min(late) >= 0
    assert median(late) <= 10
    assert max(late) <= 16
