"""Held values: what a log fills forward is seen once."""

from __future__ import annotations

import math
import random

from klarm.detectors import (
    GradientNormSpikeDetector,
    KLExplosionDetector,
    RewardHackingDetector,
    TrustRegionDetector,
)
from klarm.monitor.held import HeldValues
from klarm.monitor.monitor import Monitor


def test_a_metric_that_is_held_is_seen_when_it_changes() -> None:
    """Once that is known; another one in the same row is seen every time."""
    held = HeldValues()
    rows = [held.news({"reward": 1.0 + row // 10, "kl": 0.1 * row}) for row in range(100)]
    seen = [row for row, news in enumerate(rows) if "reward" in news]
    assert seen[-4:] == [60, 70, 80, 90]
    assert all("kl" in news for news in rows)


def test_a_nan_that_is_held_is_seen_once() -> None:
    """A NaN equals no number, not even itself."""
    held = HeldValues()
    rows = [{"kl": math.nan if row >= 80 else 1.0 + row // 10} for row in range(100)]
    seen = [row for row, values in enumerate(rows) if held.news(values)]
    assert seen[-2:] == [70, 80]


def test_what_is_often_the_same_by_nature_is_not_held() -> None:
    """Shares, settings, zeros, and a metric that never changes at all."""
    held = HeldValues()
    row = {"zero_std_fraction": 1.0, "learning_rate": 1e-5, "kl": 0.0, "loss": 0.5}
    assert [held.news(row) for _ in range(100)] == [row] * 100


def test_noise_is_never_held() -> None:
    """And the row comes back as it was."""
    held, rng = HeldValues(), random.Random(2)
    rows = [{"kl": rng.random(), "reward": rng.random()} for _ in range(200)]
    assert [held.news(row) for row in rows] == rows


def test_one_update_that_is_held_for_ten_rows_is_one_update() -> None:
    """The median of three such rows is no confirmation."""
    monitor = Monitor("a", [TrustRegionDetector()])
    rng = random.Random(4)
    for row in range(200):
        if row % 10 == 0:
            moved = 0.2 if row == 150 else 0.01 * rng.random()
        monitor.log({"kl_old": moved, "loss": rng.random()}, row)
    assert monitor.critical == []


def test_several_updates_from_one_batch_confirm_nothing() -> None:
    """Its samples are the same: the gradient is large in each of them, and then it is over."""

    def incidents(batches: int) -> int:
        monitor, rng = Monitor("a", [GradientNormSpikeDetector()]), random.Random(5)
        for row in range(600):
            batch = row // 4
            large = 150 > batch >= 149 - batches
            monitor.log(
                {"grad_norm": rng.uniform(0.4, 0.6) + 50.0 * large, "reward": 0.1 + 0.01 * batch},
                row,
            )
        return sum(incident.number for incident in monitor.incidents)

    assert incidents(batches=1) == 0
    assert incidents(batches=6) == 1


def held_rows(metric: str, spike_at: int) -> list[dict[str, float]]:
    """Return rows that hold each value of a metric for ten rows, one of them far out."""
    rng = random.Random(6)
    values = [rng.gauss(0.02, 0.002) + (1.0 if n == spike_at // 10 else 0.0) for n in range(40)]
    return [{metric: values[row // 10], "loss": rng.random()} for row in range(400)]


def test_the_specified_rules_judge_every_row() -> None:
    """They alert in the rows that repeat a value exactly as they do when they are fed by hand."""
    for kind, metric in ((KLExplosionDetector, "kl"), (RewardHackingDetector, "reward_std")):
        rows = held_rows(metric, spike_at=300)
        monitor, alone = Monitor("a", [kind()]), kind()
        said = [monitor.log(row, step) for step, row in enumerate(rows)]
        expected = [alone.update(step, row) for step, row in enumerate(rows)]
        assert [alerts[0] if alerts else None for alerts in said] == expected
        assert any(expected)


def test_a_value_that_is_held_confirms_nothing() -> None:
    """Ten rows in alert are one observation."""
    monitor = Monitor("a", [KLExplosionDetector()])
    for step, row in enumerate(held_rows("kl", spike_at=300)):
        monitor.log(row, step)
    assert monitor.alert_counts["critical"] > 1
    assert not any(incident.number for incident in monitor.incidents)
