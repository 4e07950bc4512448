"""Completions that grow: without reward, with it, and cut off."""

from __future__ import annotations

import random

import pytest

from cases import over
from fed_detectors import severities
from klarm.cli.demo import read_recording
from klarm.detectors import LengthBlowupDetector
from klarm.types import Alert


def feed(
    lengths: list[float], rewards: list[float] | None = None, cut: list[float] | None = None
) -> list[Alert | None]:
    detector = LengthBlowupDetector()
    alerts = []
    for step, length in enumerate(lengths):
        metrics = {"length": length}
        if rewards:
            metrics["reward"] = rewards[step]
        if cut:
            metrics["truncated_fraction"] = cut[step]
        alerts.append(detector.update(step, metrics))
    return alerts


def noisy(seed: int, level: float, spread: float, count: int) -> list[float]:
    rng = random.Random(seed)
    return [level * rng.lognormvariate(0, spread) for _ in range(count)]


def test_a_length_that_grows_without_reward_raises_an_alert() -> None:
    """100 tokens, 310 from step 50 and 460 from 100: when they are the most of twenty."""
    alerts = feed([100.0] * 50 + [310.0] * 50 + [460.0] * 50, [0.5] * 150)
    assert severities(alerts) == {
        **dict.fromkeys(range(60, 110), "warning"),
        **dict.fromkeys(range(110, 150), "critical"),
    }
    assert alerts[60] is not None
    assert alerts[60].decisive
    assert alerts[60].message == (
        "Completions are 3.1 times as long as before (median 310 tokens, 100 before) "
        "and 0% are cut off (0% before), but the reward has not climbed (0.5, 0.5 before)."
    )


def test_growth_that_the_reward_pays_for_is_the_new_normal() -> None:
    """Length and reward climb together to ten times and stay: nothing is said."""
    lengths = [100.0 * 10 ** (min(step, 400) / 400) for step in range(600)]
    rewards = [0.1 + 0.002 * min(step, 400) for step in range(600)]
    assert not any(feed(lengths, rewards))


def test_growth_after_the_reward_has_stopped_raises_an_alert() -> None:
    """Both climb until step 200; then only the length goes on."""
    lengths = [100.0 * 2 ** (step / 100) for step in range(500)]
    rewards = [0.1 + 0.002 * min(step, 200) for step in range(500)]
    assert min(severities(feed(lengths, rewards))) == 496


def test_one_long_batch_raises_no_alert() -> None:
    """Nor are nine in a row."""
    assert not any(feed([100.0] * 50 + [5000.0] * 9 + [100.0] * 50, [0.5] * 109))


def test_a_rising_truncated_share_raises_an_alert_where_length_is_limited() -> None:
    """The limit holds the length at 1.3 times; 0.4 more are cut off from step 50, then 0.6."""
    alerts = feed([400.0] * 50 + [520.0] * 60, [0.5] * 110, [0.1] * 50 + [0.5] * 30 + [0.7] * 30)
    assert severities(alerts) == {
        **dict.fromkeys(range(60, 89), "warning"),
        **dict.fromkeys(range(89, 110), "critical"),
    }


def test_without_a_reward_growth_alone_raises_an_alert() -> None:
    """And the message says that nothing could explain it."""
    alert = feed([100.0] * 50 + [310.0] * 11)[-1]
    assert alert is not None
    assert "no reward is logged that could explain this" in alert.message


def test_reward_in_another_dict_of_the_step_is_used() -> None:
    """Some trainers log rewards and lengths one after the other."""
    detector = LengthBlowupDetector()
    for step in range(200):
        grown = step >= 100
        assert detector.update(step, {"reward": 2.0 if grown else 1.0}) is None
        assert detector.update(step, {"length": 250.0 if grown else 100.0}) is None


@over("seed", range(5))
def test_a_healthy_run_raises_no_alert(seed: int) -> None:
    """Noisy lengths that fall a little, a reward that is flat."""
    lengths = [value * (1 - step / 3000) for step, value in enumerate(noisy(seed, 300, 0.4, 1000))]
    assert not any(feed(lengths, noisy(seed + 9, 0.5, 0.3, 1000), noisy(seed + 5, 0.1, 0.5, 1000)))


@pytest.mark.parametrize("recording", ["healthy", "drifting"])
def test_the_recordings_raise_no_alert(recording: str) -> None:
    """Real GRPO runs whose lengths do not grow."""
    rows = read_recording(recording)
    lengths, rewards, cut = (
        [row[key] for row in rows]
        for key in ("completions/mean_length", "reward", "completions/clipped_ratio")
    )
    assert not any(feed(lengths, rewards, cut))
