"""Reward collapse: lasting losses raise alerts, and what only looks like one does not."""

from __future__ import annotations

import math
import random
import re
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import over
from klarm.cli.demo import read_recording
from klarm.detectors import RewardCollapseDetector
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.types import Alert, Event


def feed(rewards: list[float], **settings: float) -> list[Alert]:
    detector = RewardCollapseDetector(**settings)  # type: ignore[arg-type]
    alerts = (detector.update(step, {"reward": reward}) for step, reward in enumerate(rewards))
    return [alert for alert in alerts if alert is not None]


def learning(steps: int, seed: int = 0, noise: float = 0.05) -> list[float]:
    """Return a reward that rises from 0 to 1 in two hundred steps and stays there."""
    rng = random.Random(seed)
    return [min(step / 200, 1.0) + rng.gauss(0, noise) for step in range(steps)]


def around(level: float, steps: int, seed: int = 1) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(level, 0.05) for _ in range(steps)]


def test_a_fall_of_half_is_a_warning_until_it_is_normal() -> None:
    """From 1 to 0.45 at 300: an alert from when half of the last twenty are low."""
    alerts = feed(learning(300) + around(0.45, 100))
    assert [alerts[0].step, alerts[-1].step] == [312, 326]
    assert {alert.severity for alert in alerts} == {"warning"}
    assert all(alert.decisive for alert in alerts)
    assert alerts[0].message.startswith("Reward fell from ")
    assert alerts[0].message.endswith(" (the median of the last 20 rows).")
    assert "stays there" not in alerts[0].message  # it may go on falling


def test_what_a_message_calls_a_median_is_the_median() -> None:
    """The rule compares lower medians, but people recompute what they read."""
    rewards = learning(300) + around(0.45, 100)
    sudden = feed(rewards)[0]
    before, latest = rewards[sudden.step - 69 : sudden.step - 19], rewards[sudden.step - 19 :][:20]
    was, now = statistics.median(before), statistics.median(latest)
    assert f" from {was:.4g} to {now:.4g} (the median of" in sudden.message
    assert sudden.metrics["level_before"] == pytest.approx(was)
    rng = random.Random(3)
    levels = [min(step / 100, 1.0) - max(step - 200, 0) / 300 for step in range(480)]
    rewards = [level + rng.gauss(0, 0.02) for level in levels]
    slow = next(alert for alert in feed(rewards) if "slowly" in alert.message)
    windows = [rewards[end - 20 : end] for end in range(73, slow.step, 5)]
    best = statistics.median(max(windows, key=statistics.median_low))
    assert f" to {best:.4g}, and is now at" in slow.message


def test_a_fall_without_noise_has_no_sigma() -> None:
    """Nothing is to be divided by."""
    alerts = feed([0.0, 0.0] * 50 + [-1.0] * 40)
    assert alerts[0].message.startswith("Reward fell from 0 to -1 (the median of the last ")


def test_a_fall_to_the_lowest_level_is_critical() -> None:
    """Everything that was learnt is lost."""
    alerts = feed(learning(300) + around(-0.1, 100))
    assert alerts[0].step == 312
    assert "critical" in {alert.severity for alert in alerts}


@over("seed", range(20))
def test_the_share_that_was_lost_is_that_of_the_levels_beside_it(seed: int) -> None:
    """Readers divide them."""
    rng = random.Random(seed)
    sinking = [1.0 - step / 500 + rng.gauss(0, 0.12) for step in range(500)]
    message = feed(learning(300) + sinking)[0].message
    numbers = re.findall(r"lost (\d+)% .* from (\S+) to (\S+), and is now at (\S+) ", message)
    ((share, lowest, highest, now),) = numbers
    lost = (float(highest) - float(now)) / (float(highest) - float(lowest))
    assert abs(lost - float(share) / 100) <= 0.0051


def test_a_gradual_loss_of_most_of_what_was_learnt_is_a_warning() -> None:
    """No twenty values are far below the fifty before them."""
    rng = random.Random(3)
    sinking = [1.0 - step / 500 + rng.gauss(0, 0.05) for step in range(500)]
    alerts = feed(learning(300) + sinking)
    assert {alert.severity for alert in alerts} == {"warning"}
    assert 580 < alerts[0].step < 640
    said = r"Reward has slowly lost 6\d% of what was learnt: it had risen from -?0\.0\d+ to "
    assert re.match(rf"{said}(1|0\.9)", alerts[0].message)


def test_a_gradual_loss_of_more_than_was_learnt_is_no_share_of_it() -> None:
    """A percentage of 100 would not fit the numbers beside it."""
    rng = random.Random(3)
    sinking = [1.0 - step / 300 + rng.gauss(0, 0.05) for step in range(600)]
    last = feed(learning(300) + sinking, slow_share=1.1)[0]
    assert last.message.startswith("Reward has slowly fallen from its best level, 1.")
    assert "It is below its lowest level before that, -0.0" in last.message


def test_a_reward_that_goes_up_and_down_is_not_lost() -> None:
    """By a quarter of what was learnt, again and again."""
    waves = [0.85 + 0.15 * math.sin(step / 60) + x for step, x in enumerate(around(0, 900))]
    assert not feed(learning(300) + waves)


def test_a_saturated_reward_that_falls_a_little_has_not_collapsed() -> None:
    """From 1.0 to 0.9875: its range is tiny, and so is the fall."""
    assert not feed([1.0] * 200 + [0.9875] * 100)


def test_a_collapse_is_detected_in_a_short_run_too() -> None:
    """It has 49 rows, and the reward falls from 439 to 9 at the thirtieth."""
    rng = random.Random(5)
    rising = [20.0 + 14.0 * step + rng.gauss(0, 5) for step in range(30)]
    alerts = feed(rising + [9.0 + rng.gauss(0, 1) for _ in range(19)])
    assert 30 <= alerts[0].step <= 40
    assert "critical" in {alert.severity for alert in alerts}


def test_the_incident_opens_at_the_step_of_the_first_alert() -> None:
    """The alert is decisive, so it needs no confirmation."""
    journal = MemoryJournal()
    monitor = Monitor("test", [RewardCollapseDetector()], journal)
    for step, reward in enumerate(learning(300) + around(0.2, 50)):
        monitor.log({"reward": reward}, step)
    opened = [r for r in journal.records if isinstance(r, Event) and r.event == "opened"]
    assert [(event.signal, event.step) for event in opened] == [("reward", 312)]


@over("seed", range(5))
def test_learning_and_noise_are_silent(seed: int) -> None:
    """A noisy rise, a plateau, and noise without any trend."""
    assert feed(learning(2000, seed, noise=0.3)) == []
    assert feed([random.Random(seed).gauss(0, 1) for _ in range(2000)]) == []


def test_a_short_dip_is_silent() -> None:
    """Eight bad steps are fewer than half of twenty."""
    assert feed(learning(300) + around(0.0, 8) + around(1.0, 200)) == []


def test_a_small_fall_is_silent_however_clear() -> None:
    """A quarter of what was gained, at a twentieth of the noise."""
    quiet = learning(300, noise=0.002)
    assert feed(quiet + [0.75 + value - 1.0 for value in quiet[-100:]]) == []


def test_rewards_that_are_mostly_equal_are_silent() -> None:
    """A sparse reward: one answer in twenty is right, in no order."""
    rng = random.Random(3)
    assert feed([float(rng.random() < 0.05) for _ in range(3000)]) == []


def test_the_healthy_recording_is_silent() -> None:
    """A real run of TRL's GRPO."""
    assert feed([row["reward"] for row in read_recording("healthy") if "reward" in row]) == []


@given(st.floats(1e-6, 1e6), st.floats(-1e6, 1e6))
def test_the_unit_of_reward_does_not_matter(scale: float, offset: float) -> None:
    """A reward from 0 to 1000 raises an alert at the same step as one from 0 to 1."""
    rewards = learning(300) + around(0.2, 50)
    moved = [scale * reward + offset for reward in rewards]
    if abs(offset) < scale:  # else the noise is below the digits of the level
        assert [alert.step for alert in feed(moved)] == [alert.step for alert in feed(rewards)]


def test_a_mean_over_the_first_few_episodes_may_drift() -> None:
    """The first to end were the lucky ones. It is smooth, and so looks as if it had no noise."""
    rng = random.Random(3)
    returns = [93.0] * 4 + [rng.gauss(80.0, 12.0) for _ in range(80)]
    means = [sum(returns[: 4 + 2 * row]) / (4 + 2 * row) for row in range(40)]
    assert feed(means) == []
    assert feed(means[:20] + [0.7 * means[20]] * 20)


def test_one_success_in_the_first_episodes_is_not_learning() -> None:
    """A mean over a hundred of them is 0.01 for a while, then 0 again."""
    assert feed([0.0] * 3 + [0.01] * 12 + [0.0] * 100) == []
