"""learning_rate_jump: a learning rate at many times what it was, and what gives way under it."""

from __future__ import annotations

import math
import random

import pytest

from fed_detectors import severities
from klarm.detectors import LearningRateJumpDetector
from klarm.types import Alert


def feed(rates: list[float], **others: list[float]) -> list[Alert | None]:
    detector = LearningRateJumpDetector()
    rows = [dict(zip(others, values, strict=True)) for values in zip(*others.values(), strict=True)]
    return [
        detector.update(step, {"learning_rate": rate, **(rows[step] if rows else {})})
        for step, rate in enumerate(rates)
    ]


JUMP = [5e-5] * 50 + [5e-3] * 60


def test_a_jump_is_a_warning_immediately() -> None:
    """And for as long as it looks for what gives way."""
    alerts = feed(JUMP)
    assert severities(alerts) == dict.fromkeys(range(50, 100), "warning")
    assert alerts[50] is not None
    assert alerts[50].decisive
    assert alerts[50].message == (
        "The learning rate has jumped from 5e-5 to 0.005, ×100 (warning at ×5)."
    )


def test_it_is_critical_when_entropy_falls() -> None:
    """Here it halves within four rows of the jump."""
    entropy = [0.8] * 50 + [0.8 * 0.8**row for row in range(60)]
    alerts = feed(JUMP, entropy=entropy)
    critical = [step for step, severity in severities(alerts).items() if severity == "critical"]
    assert 54 <= critical[0] <= 58
    last = alerts[critical[0]]
    assert last is not None
    assert "and since then entropy has fallen from 0.8 to" in last.message


def test_it_gives_the_latest_entropy_not_the_median_of_a_fall() -> None:
    """A median of few rows in free fall is a value that entropy never had."""
    entropy = [3.67] * 53 + [0.3 * 0.3**row for row in range(57)]
    alerts = feed(JUMP, entropy=entropy)
    critical = [step for step, severity in severities(alerts).items() if severity == "critical"]
    last = alerts[critical[0]]
    assert last is not None
    assert f"entropy has fallen from 3.67 to {entropy[critical[0]]:.3g}." in last.message


def test_it_gives_the_median_where_the_latest_entropy_has_not_fallen() -> None:
    """Entropy is back for one row."""
    entropy = [3.67] * 53 + [0.3, 0.2, 0.4, 3.6, *[0.3] * 53]
    alerts = feed(JUMP, entropy=entropy)
    critical = [step for step, severity in severities(alerts).items() if severity == "critical"]
    last = alerts[critical[0]]
    assert (critical[0], last is not None) == (56, True)
    assert last is not None
    assert "entropy has fallen from 3.67 to 0.4 (median of the last 5 rows)." in last.message


def test_it_is_critical_when_reward_falls() -> None:
    """By more than its noise."""
    rng = random.Random(1)
    reward = [0.9 + rng.gauss(0, 0.03) for _ in range(55)] + [0.5] * 55
    assert "critical" in severities(feed(JUMP, reward=reward)).values()
    steady = [0.9 + rng.gauss(0, 0.03) for _ in range(110)]
    assert "critical" not in severities(feed(JUMP, reward=steady)).values()


@pytest.mark.parametrize(
    "rates",
    [
        [1e-5 * min(step + 1, 50) / 50 for step in range(300)],  # a warm-up
        [1e-5 * (1 + math.cos(step % 100 / 100 * math.pi)) / 2 for step in range(500)],  # restarts
        [1e-5 * (1 - step / 300) for step in range(300)],  # to 0
        [0.0] * 30 + [1e-5] * 30,  # a first stage without training
    ],
)
def test_no_usual_schedule_is_a_jump(rates: list[float]) -> None:
    """Whatever it does from row to row."""
    assert severities(feed(rates)) == {}


def test_a_jump_that_is_undone_is_quiet_immediately() -> None:
    """Somebody has seen it."""
    assert list(severities(feed([1e-5] * 20 + [1e-3] * 3 + [1e-5] * 20))) == [20, 21, 22]
