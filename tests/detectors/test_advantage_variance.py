"""advantage_variance: the step it alarms at, and what leaves it quiet."""

from __future__ import annotations

import random

import pytest

from cases import over
from fed_detectors import feed
from klarm.detectors import AdvantageVarianceDetector


def healthy(count: int) -> list[float]:
    rng = random.Random(1)
    return [0.3 * rng.lognormvariate(0, 0.25) for _ in range(count)]


@over(
    "value, severity",
    [(1.5, None), (1.51, "warning"), (3.0, "warning"), (3.01, "critical"), (0.0, None)],
)
def test_three_times_the_mean_warns_and_six_times_is_critical(
    value: float, severity: str | None
) -> None:
    """Strictly more, and narrower is never an alarm."""
    detector = AdvantageVarianceDetector()
    feed(detector, [0.5] * 100)
    alert = detector.update(100, {"advantage_std": value})
    assert (alert.severity if alert else None) == severity
    assert detector.score == pytest.approx(value / 0.5)


def test_advantages_that_double_every_ten_steps_raise_alerts_at_exact_steps() -> None:
    """A blow-up after 200 healthy steps: warned of at 219, critical at 242."""
    values = healthy(200) + [0.3 * 2 ** (i / 10) for i in range(60)]
    alerts = feed(AdvantageVarianceDetector(), values)
    assert next(step for step, alert in enumerate(alerts) if alert) == 219
    assert next(s for s, a in enumerate(alerts) if a and a.severity == "critical") == 242


def test_a_healthy_run_is_silent() -> None:
    """Noise of a quarter, for 5,000 steps, in both modes."""
    for mode in ("rolling", "frozen"):
        assert not any(feed(AdvantageVarianceDetector(baseline_mode=mode), healthy(5_000)))


def test_only_a_frozen_baseline_detects_slow_growth() -> None:
    """Tenfold over 2,000 steps."""
    growing = [0.3 * 10 ** (i / 2_000) for i in range(2_000)]
    assert not any(feed(AdvantageVarianceDetector(), growing))
    alerts = feed(AdvantageVarianceDetector(baseline_mode="frozen"), growing)
    assert alerts[-1] is not None
    assert alerts[-1].severity == "critical"
    assert " times the baseline of its first 100 values, 0.3178" in alerts[-1].message


def test_tiny_advantages_raise_no_alert_on_tiny_changes() -> None:
    """The mean is taken as at least 0.01."""
    detector = AdvantageVarianceDetector()
    assert not any(feed(detector, [0.0] * 60 + [0.02]))
    assert detector.score == pytest.approx(2.0)


def test_nothing_fires_in_warmup() -> None:
    """Value number 21 is the first that can."""
    detector = AdvantageVarianceDetector()
    assert feed(detector, [0.5] * 19 + [90.0]) == [None] * 20
    assert detector.update(20, {"advantage_std": 500.0}) is not None


def test_the_alert_carries_its_numbers() -> None:
    """Ratio, baseline and the threshold that was passed."""
    detector = AdvantageVarianceDetector()
    feed(detector, [0.5] * 100)
    alert = detector.update(100, {"advantage_std": 2.0})
    assert alert is not None
    assert not alert.decisive
    assert alert.message == (
        "The standard deviation of advantages 2 is 4 times its rolling baseline of 0.5 "
        "(warning above 3 times)."
    )
    assert alert.metrics == {
        "advantage_std": 2.0,
        "ratio": 4.0,
        "baseline_mean": 0.5,
        "baseline_mode": "rolling",
        "threshold": 3.0,
        "learnt": 100.0,
    }
