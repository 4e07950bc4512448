"""kl_negative: an estimate that stays below 0 is wrong, one that scatters about it is not."""

from __future__ import annotations

import random

from klarm.detectors import KLNegativeDetector
from klarm.types import Alert


def feed(values: list[float]) -> list[Alert | None]:
    detector = KLNegativeDetector()
    return [detector.update(step, {"kl": value}) for step, value in enumerate(values)]


def test_a_level_below_zero_raises_an_alert_when_most_of_twenty_values_are_there() -> None:
    """From step 30 on, KL is about -0.25."""
    alerts = feed([0.02] * 30 + [-0.25] * 30)
    assert next(alert.step for alert in alerts if alert) == 40
    assert alerts[-1] is not None
    assert alerts[-1].decisive
    assert alerts[-1].message == (
        "The median KL of the last 20 rows is -0.25. A KL cannot be negative, so this estimate is "
        "wrong (warning below -0.1)."
    )


def test_a_signed_estimate_that_scatters_about_zero_raises_no_alert() -> None:
    """However far single values go."""
    rng = random.Random(1)
    assert not any(feed([rng.gauss(0.001, 0.1) for _ in range(2_000)]))


def test_a_noisy_estimate_is_not_below_zero_by_chance() -> None:
    """Its values are about ±0.6, and so is a median of twenty at times -0.15."""
    rng = random.Random(2)
    assert not any(feed([rng.gauss(0.02, 0.6) for _ in range(2_000)]))


def test_a_few_negative_values_raise_no_alert() -> None:
    """Nine of twenty."""
    assert not any(feed(([-5.0] * 9 + [0.02] * 11) * 20))
