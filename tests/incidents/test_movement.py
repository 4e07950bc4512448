"""What a message says about other metrics that moved. Covers going_on.py too."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from cases import over
from klarm.detectors import CATALOGUE
from klarm.incidents.movement import Before, Movement
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.trends import movements_of
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.types import Event

Row = dict[str, float]


def alarms(value: Callable[[int], Row], detector: str) -> list[Event]:
    """Return what people read about a run of 200 rows, of the incidents of one detector."""
    journal = MemoryJournal()
    watched = Monitor("a", [kind() for kind in CATALOGUE], journal)
    for step in range(200):
        watched.log(value(step), step=step)
    found = [record for record in journal.records if isinstance(record, Event)]
    return [e for e in found if e.event in ("opened", "escalated") and detector in e.detectors]


def wobble(step: int) -> float:
    """Return some noise around 1, the same in every run."""
    return 1.0 + 0.05 * ((7 * step) % 11 - 5) / 5


def test_numbers_of_a_metric_stand_in_the_message_or_under_also_moved_but_not_in_both() -> None:
    """Two numbers about one metric, measured over different rows, look like a contradiction."""

    def row(step: int) -> Row:
        late = max(0, step - 100)
        return {
            "reward": 0.6 * wobble(step) - 0.004 * late,
            "kl": 0.02 * wobble(step) + 0.003 * late,
            "length": 200.0 * wobble(step) * (1 + late / 25),
        }

    event = alarms(row, "reward_drift")[0]
    assert "while KL rose from" in event.message
    assert "length ×" in event.moved  # others have their numbers here
    assert "; kl has risen since step 1" in event.moved  # and this one only its date
    assert "kl ×" not in event.moved


def test_damage_of_a_learning_rate_that_jumped_is_given_once() -> None:
    """The message says how far entropy has fallen; the list only adds when it began."""

    def row(step: int) -> Row:
        late = step >= 100
        return {
            "learning_rate": 1e-3 if late else 1e-5,
            "entropy": wobble(step) * (0.2 if late else 1.0),
            "reward": 0.5 * wobble(step),
        }

    *_, event = alarms(row, "learning_rate_jump")
    assert "entropy has fallen from" in event.message
    assert event.moved.startswith("entropy has fallen since step 10")


def test_what_moved_slowly_as_the_message_says_is_not_given_again() -> None:
    """A drift over a hundred rows may be too slow for the list."""

    def row(step: int) -> Row:
        return {
            "reward": 0.6 * wobble(step) - 0.001 * step,
            "entropy": 0.5 * wobble(step) + 0.001 * step,
            "grad_norm": wobble(step) * (8.0 if step > 90 else 1.0),
        }

    event = alarms(row, "reward_drift")[0]
    assert "while entropy rose from" in event.message
    assert "grad_norm ×" in event.moved
    assert "entropy" not in event.moved


def test_an_entropy_that_has_just_plunged_is_not_said_to_fall_as_before() -> None:
    """It was almost flat: a trend that is ten times as steep does not go on as before."""

    def row(step: int) -> Row:
        late = max(0, step - 149)
        return {
            "kl": 0.02 * wobble(step) * 1.6**late,
            "entropy": 2.5 - 0.0002 * step + 0.003 * (wobble(step) - 1) - 0.1 * late,
            "reward": 0.5 * wobble(step) + 0.004 * step,
        }

    first = alarms(row, "kl_runaway")[0]
    assert "entropy keeps falling" not in first.moved
    assert "entropy down" in first.moved or "entropy ×" in first.moved
    assert "reward keeps rising as before" in first.moved


def reward_of(course: Callable[[int], float], steps: int, seed: int, noise: float) -> Movement:
    """Return how a reward moved that follows a course, with some noise."""
    rng, rows = random.Random(seed), RecentRows()
    for step in range(steps):
        rows.add(step, {"reward": course(step) + rng.gauss(0.0, noise)})
    return movements_of(rows)[0]


@over("seed", range(8))
def test_a_reward_far_above_its_trend_is_not_said_to_rise_as_before(seed: int) -> None:
    """Its growth is what shows that it is hacked: ten times its noise above a slow trend."""

    def course(step: int) -> float:
        return 0.35 + 0.001 * step + 0.4 * (1.0 - math.exp(-max(0, step - 180) / 15))

    reward = reward_of(course, 201, seed, 0.03)
    assert (reward.direction, reward.steady, reward.goes_on) == ("up", False, False)
    assert reward.is_worth_saying
    assert 180 <= reward.step <= 186
    # When it has just begun, it is not yet listed as moved.
    assert not reward_of(course, 190, seed, 0.03).goes_on


@over("seed", range(8))
def test_a_reward_that_has_fallen_in_the_last_rows_is_not_said_to_rise(seed: int) -> None:
    """Its level of ten rows is still above that of fifty rows earlier."""
    rng, rows = random.Random(seed), RecentRows()
    for step in range(182):
        rows.add(step, {"reward": 0.35 + 0.001 * step + rng.gauss(0.0, 0.015)})
    for step, reward in enumerate([0.537, 0.514, 0.527, 0.505, 0.476], 182):
        rows.add(step, {"reward": reward})
    assert not movements_of(rows)[0].goes_on


def test_a_reward_says_for_how_many_rows_it_has_not_risen() -> None:
    """A quarter of the rows, or the last five if it has only just stopped."""
    normal = Before(0.5, 0.01, all_positive=True)
    reward = Movement(
        "reward", "flat", 200, math.nan, level=0.55, normal=normal, rows=100, tends="up",
        steady=True, pauses=5,
    )  # fmt: skip
    gradual = reward.gradual()
    assert gradual is not None
    assert (gradual.told, gradual.way, gradual.rows) == ("gradual", "up", 100)
    assert gradual.ratio == pytest.approx(1.1)


@pytest.mark.parametrize("slope", [0.001, 0.002, 0.004])
def test_most_rewards_that_rise_as_before_are_said_to(slope: float) -> None:
    """Noise alone rarely looks like a change of the trend."""
    found = [reward_of(lambda step: 0.3 + slope * step, 250, seed, 0.02) for seed in range(40)]
    assert not any(reward.is_worth_saying and reward.direction != "flat" for reward in found)
    told = [gradual.told for reward in found if (gradual := reward.gradual()) is not None]
    assert told.count("as_before") >= 20
