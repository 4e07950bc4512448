"""reward_hacking: variance against a locked baseline, and rewards that split in two."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from klarm.binding import Binding
from klarm.cli.demo import read_recording
from klarm.detectors import RewardHackingDetector
from klarm.types import Alert


def feed(detector: RewardHackingDetector, values: list[float]) -> list[Alert | None]:
    return [detector.update(step, {"reward_std": value}) for step, value in enumerate(values)]


def healthy(count: int) -> list[float]:
    rng = random.Random(1)
    return [0.2 * rng.lognormvariate(0, 0.12) for _ in range(count)]


def one_group(rng: random.Random, count: int = 64) -> list[float]:
    return [rng.gauss(0.5, 0.2) for _ in range(count)]


def two_groups(rng: random.Random, count: int = 64) -> list[float]:
    return [rng.gauss(rng.choice([0.0, 1.0]), 0.08) for _ in range(count)]


@pytest.mark.parametrize(
    ("variance", "severity"),
    [(0.119, None), (0.121, "warning"), (0.239, "warning"), (0.241, "critical"), (0.0, None)],
)
def test_three_times_the_variance_warns_and_six_times_is_critical(
    variance: float, severity: str | None
) -> None:
    """Variance, not standard deviation; less of it is never an alarm."""
    detector = RewardHackingDetector()
    feed(detector, [0.2] * 100)
    alert = detector.update(100, {"reward_std": math.sqrt(variance)})
    assert (alert.severity if alert else None) == severity
    assert detector.score == pytest.approx(variance / 0.04)


def test_a_spread_that_grows_is_seen_at_an_exact_step() -> None:
    """The spread doubles every 40 steps after 200 healthy ones: warned at 232, critical at 252."""
    values = healthy(200) + [0.2 * 2 ** (i / 40) for i in range(80)]
    alerts = feed(RewardHackingDetector(), values)
    assert next(step for step, alert in enumerate(alerts) if alert) == 232
    assert next(s for s, a in enumerate(alerts) if a and a.severity == "critical") == 252


def test_a_healthy_run_is_silent() -> None:
    """Generated and recorded."""
    assert not any(feed(RewardHackingDetector(), healthy(5_000)))
    detector, binding = RewardHackingDetector(), Binding()
    rows = read_recording("healthy")
    assert not any(detector.update(row["step"], binding.read(row)) for row in rows)


def test_the_baseline_locks_when_its_window_is_full() -> None:
    """A spread that creeps up afterwards does not take it along."""
    detector = RewardHackingDetector()
    feed(detector, [0.2] * 100)
    locked = detector.mean
    alerts = feed(detector, [0.2 * 10 ** (i / 2_000) for i in range(2_000)])
    assert detector.mean == locked == pytest.approx(0.04)
    assert alerts[-1] is not None


def test_nothing_fires_in_the_first_fifty_values() -> None:
    """Number 51 is the first that can."""
    detector = RewardHackingDetector()
    assert feed(detector, [0.2] * 49 + [9.0]) == [None] * 50
    assert detector.update(50, {"reward_std": 50.0}) is not None


def test_equal_rewards_do_not_alarm_at_a_whisper() -> None:
    """The baseline is taken as at least 0.001: a deviation of 0.05 is 2.5 times that."""
    detector = RewardHackingDetector()
    assert not any(feed(detector, [0.0] * 100 + [0.05]))
    assert detector.score == pytest.approx(2.5)


def test_the_alert_carries_its_numbers() -> None:
    """Ratio, baseline and the threshold that was passed."""
    detector = RewardHackingDetector()
    feed(detector, [0.5] * 100)
    alert = detector.update(100, {"reward_std": 1.0})
    assert alert is not None
    assert alert.message == (
        "The rewards' variance 1 is 4 times its baseline of 0.25 (warning above 3 times)."
    )
    assert alert.metrics == {
        "reward_std": 1.0,
        "ratio": 4.0,
        "baseline_variance": 0.25,
        "threshold": 3.0,
    }


def test_rewards_that_split_into_two_groups_warn_at_an_exact_step() -> None:
    """From step 120 on some samples get nothing and some everything."""
    rng = random.Random(3)
    detector = RewardHackingDetector()
    batches = [one_group(rng) if step < 120 else two_groups(rng) for step in range(140)]
    alerts = [detector.update_samples(step, batch) for step, batch in enumerate(batches)]
    assert [step for step, alert in enumerate(alerts) if alert] == list(range(120, 140))
    first = alerts[120]
    assert first is not None
    assert first.severity == "warning"
    assert first.metrics.keys() == {"dip", "p_value", "samples"}
    assert "have split into groups" in first.message


def test_rewards_with_one_peak_are_seldom_taken_for_two() -> None:
    """Wherever the peak moves: at most one step in a hundred, never five in a row."""
    rng = random.Random(4)
    detector = RewardHackingDetector()
    said = ""
    for step in range(1_000):
        moved = [reward + step / 500 for reward in one_group(rng)]
        said += "!" if detector.update_samples(step, moved) else "."
    assert said.count("!") <= 10
    assert "!!!!!" not in said


def test_rewards_that_were_bimodal_from_the_start_are_silent() -> None:
    """Nothing has become of them."""
    rng = random.Random(5)
    detector = RewardHackingDetector()
    assert not any(detector.update_samples(step, two_groups(rng)) for step in range(200))


def test_grades_are_not_judged() -> None:
    """Right or wrong is always two groups: ten distinct rewards are the least."""
    rng = random.Random(6)
    detector = RewardHackingDetector()
    for step in range(100):
        detector.update_samples(step, one_group(rng))
    assert detector.update_samples(100, [0.0, 1.0] * 32) is None
    assert detector.update_samples(101, [0.0, 0.1, 0.2, 0.3, 1.0, 1.1, 1.2, 1.3, 1.4] * 9) is None


def test_samples_may_be_an_array_and_may_hold_anything() -> None:
    """What is not finite, or is beyond arithmetic, is left out."""
    rng = random.Random(3)
    detector = RewardHackingDetector()
    for step in range(60):
        detector.update_samples(step, np.array(one_group(rng)))
    broken = [math.nan, math.inf, -math.inf, 1e308, -1e308]
    alert = detector.update_samples(60, [*two_groups(rng), *broken])
    assert alert is not None
    assert alert.metrics["samples"] == 64
    assert detector.update_samples(61, []) is None
    assert detector.update_samples(62, broken * 20) is None


def test_a_reset_forgets_the_samples_too() -> None:
    """After it there is a warm-up again."""
    rng = random.Random(7)
    detector = RewardHackingDetector()
    for step in range(60):
        detector.update_samples(step, one_group(rng))
    assert detector.update_samples(60, two_groups(rng)) is not None
    detector.reset()
    assert detector.update_samples(61, two_groups(rng)) is None
