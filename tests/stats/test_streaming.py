"""Sliding statistics: right, bounded, and not marked by what has left the window."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import over
from klarm.stats.batch import sliding_moments
from klarm.stats.streaming import (
    SlidingMoments,
    median,
)

ordinary = st.floats(-1e6, 1e6, allow_nan=False)
finite = st.floats(allow_nan=False, allow_infinity=False)


def exact_moments(values: list[float]) -> tuple[float, float]:
    """Return mean and population standard deviation, computed without rounding."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return float(mean), math.sqrt(sum((x - mean) ** 2 for x in exact) / len(exact))


@given(st.lists(ordinary, min_size=1, max_size=60), st.integers(1, 12))
def test_the_moments_are_those_of_the_last_values(values: list[float], size: int) -> None:
    """Whatever came before the window does not count."""
    moments = SlidingMoments(size)
    for i, value in enumerate(values):
        moments.update(value)
        mean, std = exact_moments(values[max(0, i + 1 - size) : i + 1])
        assert moments.mean == pytest.approx(mean, rel=1e-9, abs=1e-9)
        assert moments.std == pytest.approx(std, rel=1e-6, abs=1e-6)
        assert moments.count == min(size, i + 1)


@over("spike", [1e6, 1e12, -1e12, 1e100])
@over("size, at", [*product([10, 100], [0, 7, 99, 100, 150]), (1000, 150)])
def test_a_spike_that_has_left_the_window_leaves_no_trace(size: int, spike: float, at: int) -> None:
    """Right after it has left, the spread is right to nine digits; so it stays."""
    rng = np.random.default_rng(size + at)
    values = [float(v) for v in rng.lognormal(-4, 0.5, at + 3 * size)]
    values[at] = spike
    moments = SlidingMoments(size)
    for i, value in enumerate(values):
        moments.update(value)
        if i in range(at + size, at + size + 20) or i == len(values) - 1:
            _, std = exact_moments(values[i + 1 - size : i + 1])
            assert moments.std == pytest.approx(std, rel=1e-9)


def test_values_that_shrink_by_many_orders_keep_their_digits() -> None:
    """A slow fall over 24 orders of magnitude is where updates by subtraction lose everything."""
    values = [10.0 ** (12 - i / 50) * (1 + 0.1 * (i % 3)) for i in range(1200)]
    moments = SlidingMoments(100)
    for i, value in enumerate(values):
        moments.update(value)
        if i > 100 and i % 37 == 0:
            _, std = exact_moments(values[i - 99 : i + 1])
            assert moments.std == pytest.approx(std, rel=1e-9)


def test_a_constant_has_no_spread_at_all() -> None:
    """Not even a rounding error."""
    moments = SlidingMoments(100)
    for _ in range(350):
        moments.update(0.1)
        assert moments.mean == 0.1
        assert moments.std == 0.0


def test_memory_stays_within_the_window() -> None:
    """It holds two blocks of values at most, however long the stream."""
    moments = SlidingMoments(50)
    for i in range(10_000):
        moments.update(float(i))
        held = len(moments._block) + len(moments._older_sums) + len(moments._older_squares)
        assert held <= 3 * 50


@given(st.lists(finite, max_size=80), st.integers(2, 15))
def test_stream_and_series_agree_to_the_last_bit(values: list[float], size: int) -> None:
    """Both add the same numbers in the same order, overflowing alike."""
    moments = SlidingMoments(size)
    means, variances = [], []
    for value in values:
        means.append(moments.mean)
        variances.append(moments.variance)
        moments.update(value)
    mean, variance = sliding_moments(np.array(values), size)
    np.testing.assert_array_equal(mean, np.array(means))
    np.testing.assert_array_equal(variance, np.array(variances))


def test_the_series_version_is_right_by_the_book() -> None:
    """Against the standard library, over several chunks of blocks."""
    values = np.random.default_rng(1).lognormal(-3, 0.7, 70_000)
    mean, variance = sliding_moments(values, 10)
    for i in (1, 5, 10, 11, 40_000, 69_999):
        window = values[max(0, i - 10) : i].tolist()
        assert mean[i] == pytest.approx(statistics.fmean(window), rel=1e-12)
        assert variance[i] == pytest.approx(statistics.pvariance(window), rel=1e-9)


def test_the_spread_recovers_after_numbers_too_large_to_square() -> None:
    """While one is in the window nothing is known; two windows later all is right."""
    moments = SlidingMoments(10)
    for value in [1.7e308, -1.7e308, *[0.5, 1.5] * 15]:
        moments.update(value)
    assert moments.mean == 1.0
    assert moments.std == pytest.approx(0.5)


@given(st.lists(ordinary, min_size=1, max_size=80), st.integers(2, 12))
def test_the_mean_is_right_whatever_has_left_the_window(values: list[float], size: int) -> None:
    """A spike of 1e12 before the window leaves no error behind."""
    window = SlidingMoments(size)
    spiked = [*values, 1e12, *values]
    for i, value in enumerate(spiked):
        window.update(value)
        latest = spiked[max(0, i + 1 - size) : i + 1]
        largest = max(map(abs, latest))
        assert window.mean == pytest.approx(math.fsum(latest) / len(latest), abs=1e-12 * largest)


@given(st.lists(finite, min_size=1, max_size=8))
def test_a_median_of_finite_values_is_finite(values: list[float]) -> None:
    """The mean of the two largest floats must not overflow."""
    assert math.isfinite(median(values))
