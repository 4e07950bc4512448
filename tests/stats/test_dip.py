"""The dip test: against another implementation, and on samples whose peaks are known."""

from __future__ import annotations

import random

import diptest
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import over
from klarm.stats.dip import dip, dip_p_value

finite = st.floats(allow_nan=False, min_value=-1e6, max_value=1e6)


def samples(count: int) -> list[list[float]]:
    """Return samples with one peak, two, long tails and many equal values."""
    rng = random.Random(count)
    return [
        [rng.random() for _ in range(count)],
        [rng.gauss(0, 1) for _ in range(count)],
        [rng.gauss(rng.choice([0, 4]), 1) for _ in range(count)],
        [rng.lognormvariate(0, 2) for _ in range(count)],
        [round(rng.gauss(0, 1), 1) for _ in range(count)],
        [float(rng.randint(0, 12)) for _ in range(count)],
    ]


@over("count", [5, 10, 17, 64, 300, 2_000])
def test_the_dip_is_that_of_the_reference_package(count: int) -> None:
    """For every kind of sample, ties included."""
    for sample in samples(count):
        assert dip(sample) == pytest.approx(diptest.dipstat(np.array(sample)), abs=1e-12)


@given(st.lists(st.integers(0, 30), min_size=4, max_size=60).filter(lambda v: len(set(v)) > 1))
def test_the_dip_agrees_on_any_small_sample(values: list[int]) -> None:
    """Whole numbers: every kind of tie. The package calls the least possible dip 0 at times."""
    expected = diptest.dipstat(np.array(values, dtype=float)) or 1 / (2 * len(values))
    assert dip(values) == pytest.approx(expected, abs=1e-12)


@given(st.lists(finite, min_size=1, max_size=60))
def test_a_dip_lies_between_its_limits(values: list[float]) -> None:
    """At least 1/(2n), at most a quarter; the order of the values is nothing to it."""
    found = dip(values)
    assert found >= 1 / (2 * len(values))
    assert found <= max(0.25, 1 / (2 * len(values))) + 1e-9
    assert dip(values[::-1]) == found


@over("count", [10, 16, 35, 64, 150, 300, 800])
def test_p_is_near_that_of_the_reference_package(count: int) -> None:
    """Within the noise of two tables, where a decision is made."""
    rng = random.Random(count)
    compared = 0
    for _ in range(150):
        sample = [rng.gauss(rng.choice([0.0, 2.6]), 1) for _ in range(count)]
        distance, expected = diptest.diptest(np.array(sample))
        if expected < 0.3:
            compared += 1
            assert dip_p_value(distance, count) == pytest.approx(expected, abs=0.015)
    assert compared > 10


def test_a_larger_dip_is_less_likely() -> None:
    """In every size of sample, between the rows of the table and beyond them."""
    for count in (4, 10, 11, 99, 100, 101, 1_000, 50_000):
        found = [dip_p_value(i / 1_000, count) for i in range(250)]
        assert found == sorted(found, reverse=True)
        assert found[0] == 1.0


def test_one_peak_is_seldom_taken_for_two() -> None:
    """A uniform sample is rejected about as often as the level says, two peaks nearly always."""
    rng = random.Random(2)
    flat = [[rng.random() for _ in range(70)] for _ in range(400)]
    twin = [[rng.gauss(rng.choice([0, 5]), 1) for _ in range(70)] for _ in range(100)]
    assert 0.03 <= sum(dip_p_value(dip(s), 70) < 0.05 for s in flat) / 400 <= 0.07
    assert sum(dip_p_value(dip(s), 70) < 0.05 for s in twin) >= 95


def test_equal_values_have_one_peak() -> None:
    """And nothing has none."""
    assert dip([3.0] * 8) == 1 / 16
    assert dip([]) == 0.0
