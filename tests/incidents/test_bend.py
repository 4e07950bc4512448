"""Where a metric left the line that it followed before: made-up courses that bend at row 70."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest

from cases import over
from klarm.incidents.bend import left_line

BEGAN, ROWS, NOISE = 70, 100, 0.03
SEEDS = range(40)


def course(slope: float, trend: float, seed: int) -> list[float]:
    """Return values that follow a trend, and then also fall; both in units of noise per row."""
    rng = random.Random(seed)
    return [
        0.5 + NOISE * (trend * min(row, BEGAN) - slope * max(0, row - BEGAN) + rng.gauss(0.0, 1.0))
        for row in range(ROWS)
    ]


@over("trend", [-0.015, 0.0, 0.015])
@over("slope, late, latest", [(0.15, 16, 26), (0.3, 8, 16), (1.0, 3, 6)])
def test_a_fall_is_found_soon_after_it_begins(
    slope: float, late: int, latest: int, trend: float
) -> None:
    """And never before: a date that is too early points at rows in which nothing is to be seen."""
    places = [left_line(course(slope, trend, seed), -1.0, by_factors=False) for seed in SEEDS]
    found = [place - BEGAN for place in places if place is not None]
    assert len(found) >= 0.9 * len(SEEDS)
    assert min(found) >= 0
    assert max(found) <= latest
    assert median(found) <= late


@over("seed", range(10))
def test_an_explosion_is_found_where_it_begins(seed: int) -> None:
    """Ratios of such a metric are compared, so that slow exponential growth is a line."""
    rng = random.Random(seed)
    values = [
        0.02 * math.exp(0.08 * max(0, row - BEGAN)) * rng.lognormvariate(0.0, 0.1)
        for row in range(ROWS)
    ]
    place = left_line(values, 1.0, by_factors=True)
    assert place is not None
    assert BEGAN <= place <= BEGAN + 6


@pytest.mark.parametrize("trend", [-0.1, 0.0, 0.1])
def test_what_goes_on_along_its_line_leaves_it_nowhere(trend: float) -> None:
    """Noise alone is rarely off it for five rows."""
    found = 0
    for seed in SEEDS:
        rng = random.Random(seed)
        values = [0.5 + NOISE * (trend * row + rng.gauss(0.0, 1.0)) for row in range(ROWS)]
        found += left_line(values, -1.0, by_factors=False) is not None
    assert found <= 1


def test_a_reward_that_stops_rising_has_not_fallen() -> None:
    """A line that goes the other way is not continued."""
    rng = random.Random(0)
    values = [0.01 * min(row, BEGAN) + 0.01 * rng.gauss(0.0, 1.0) for row in range(ROWS)]
    assert left_line(values, -1.0, by_factors=False) is None


@pytest.mark.parametrize(
    "values", [[0.5] * 50, [1.0] * 12, [1e308, -1e308] * 20, [0.0] * 30 + [1e-320] * 10]
)
def test_values_without_a_line_raise_nothing(values: list[float]) -> None:
    """Constant, too few, or too large or small to compute with."""
    for side in (-1.0, 1.0):
        for by_factors in (False, True):
            left_line(values, side, by_factors=by_factors)
