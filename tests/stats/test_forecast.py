"""The forecast: it follows growth, learns late, and knows how much noise the next value shares."""

from __future__ import annotations

import random

import pytest

from klarm.stats import Forecast


def made() -> Forecast:
    return Forecast(200, early_weight=3, later_steps=20, later_part=12, max_deviation=2.5)


def after(values: list[float]) -> Forecast:
    forecast = made()
    for value in values:
        forecast.update(value)
    return forecast


def noise(count: int, shared: float, seed: int = 0) -> list[float]:
    rng, last, values = random.Random(seed), 0.0, []
    for _ in range(count):
        last = shared * last + rng.gauss(0, 0.2)
        values.append(last)
    return values


def test_steady_growth_is_foreseen() -> None:
    """The trend goes on through the values that it has not learnt from yet."""
    assert after([0.01 * step for step in range(2000)]).next == pytest.approx(20.0, abs=0.05)


def test_a_fall_is_not_extrapolated() -> None:
    """KL that comes down does not go on falling: the level is expected."""
    forecast = after([-0.01 * step for step in range(1000)])
    assert forecast.next == forecast.level


def test_the_latest_values_teach_it_nothing_yet() -> None:
    """Twenty steps of a jump leave level, noise and forecast as they were."""
    calm = noise(500, 0.0)
    before, since = after(calm), after(calm + [5.0] * 20)
    for value in calm[-20:]:  # what the other one has learnt in the meantime
        before.update(value)
    assert (since.level, since.noise) == (before.level, before.noise)


def test_noise_and_what_is_shared_are_those_of_the_series() -> None:
    """Standard deviation 0.2 by itself; with half of each value carried on, 0.23."""
    alone, carried = after(noise(3000, 0.0)), after(noise(3000, 0.5))
    assert alone.noise == pytest.approx(0.2, rel=0.15)
    assert alone.shared < 0.15
    assert carried.noise == pytest.approx(0.23, rel=0.15)
    assert carried.shared == pytest.approx(0.5, abs=0.15)


def test_a_spike_hardly_moves_it() -> None:
    """No value counts for more than two and a half noise units."""
    calm = noise(500, 0.0)
    spiked = after([*calm, 1e3, *calm[:40]])
    assert spiked.level == pytest.approx(after([*calm, 0.0, *calm[:40]]).level, abs=0.01)


def test_a_copy_without_the_latest_learns_nothing_from_them() -> None:
    """And the original goes on as before."""
    forecast = after(noise(500, 0.0) + [5.0] * 20)
    kept = forecast.without_latest()
    for _ in range(20):
        kept.update(0.0)
        forecast.update(5.0)
    assert kept.level + 0.05 < forecast.level
    assert kept.is_near(0.0)
    assert not kept.is_near(5.0)
