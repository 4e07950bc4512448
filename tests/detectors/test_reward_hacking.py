"""reward_hacking: variance against a locked baseline, and rewards that split in two."""

from __future__ import annotations

import math
import random

import pytest

from cases import over
from fed_detectors import feed
from klarm.cli.demo import read_recording
from klarm.detectors import RewardHackingDetector
from klarm.metrics.binding import Binding
from klarm.types import Alert


def healthy(count: int) -> list[float]:
    rng = random.Random(1)
    return [0.2 * rng.lognormvariate(0, 0.12) for _ in range(count)]


@over(
    "variance, severity",
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


def test_a_growing_spread_raises_alerts_at_exact_steps() -> None:
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


def test_nearly_equal_rewards_raise_no_alert_on_tiny_changes() -> None:
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
        "The variance of the reward is 1, 4 times its baseline of 0.25 (warning above 3 times)."
    )
    assert alert.metrics == {
        "reward_std": 1.0,
        "ratio": 4.0,
        "baseline_variance": 0.25,
        "threshold": 3.0,
        "variance": 1.0,
    }


def judge(detector: RewardHackingDetector, p_values: list[float]) -> list[Alert | None]:
    return [detector.update(step, {"reward_dip_p": p}) for step, p in enumerate(p_values)]


def test_rewards_that_split_warn_at_an_exact_step() -> None:
    """With only the dip test's p logged, once for every such step."""
    detector = RewardHackingDetector()
    alerts = judge(detector, [0.6] * 120 + [0.049, 0.05, 0.001])
    assert [step for step, alert in enumerate(alerts) if alert] == [120, 122]
    first = alerts[120]
    assert first is not None
    assert (first.severity, first.decisive) == ("warning", False)
    assert first.metrics == {
        "reward_dip_p": 0.049,
        "threshold": 0.05,
        "tested": 100.0,
        "bimodal": 0.0,
    }
    assert first.message == (
        "The rewards of this step have split into groups: the dip test has p = 0.049 (bimodal "
        "below 0.05). 0 of the first 100 rows were bimodal."
    )


def test_the_spread_and_the_split_have_a_warm_up_each() -> None:
    """Number 51 of its own values is the first that either can alarm about."""
    detector = RewardHackingDetector()
    feed(detector, [0.2] * 100)
    assert not any(judge(detector, [0.5] * 49 + [0.001]))
    alert = detector.update(50, {"reward_dip_p": 0.001, "reward_std": 0.2})
    assert alert is not None
    assert alert.metrics["reward_std"] == 0.2
    assert not any(judge(RewardHackingDetector(warmup_steps=0), [0.5] * 9 + [0.001]))


def test_the_worse_of_two_alerts_is_returned() -> None:
    """A spread that is critical before a split, and a NaN before everything."""
    detector = RewardHackingDetector()
    for step in range(100):
        assert detector.update(step, {"reward_std": 0.2, "reward_dip_p": 0.5}) is None
    alert = detector.update(100, {"reward_std": 0.9, "reward_dip_p": 0.001})
    assert alert is not None
    assert "variance" in alert.message
    alert = detector.update(101, {"reward_std": 0.9, "reward_dip_p": math.nan})
    assert alert is not None
    assert (alert.severity, alert.decisive) == ("critical", True)
    assert alert.message.startswith("reward_dip_p is NaN")


def test_rewards_that_were_bimodal_from_the_start_are_silent() -> None:
    """Nothing has become of them: more than a tenth of the first hundred steps looked so."""
    often = ([0.01] + [0.5] * 7) * 40
    assert not any(judge(RewardHackingDetector(), often))
    seldom = ([0.5] * 19 + [0.01]) * 20
    assert sum(alert is not None for alert in judge(RewardHackingDetector(), seldom)) == 18


def test_later_splits_do_not_change_the_baseline() -> None:
    """It is locked with its window."""
    assert all(judge(RewardHackingDetector(), [0.5] * 100 + [0.001] * 500)[100:])


def test_it_judges_a_step_with_either_metric() -> None:
    """Or incidents would not count it."""
    detector = RewardHackingDetector()
    assert detector.looks_at({"reward_std": 0.1})
    assert detector.looks_at({"reward_dip_p": 0.1})
    assert not detector.looks_at({"reward": 0.1})
