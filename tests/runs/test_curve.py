"""A thinned curve: a run of any length in a thousand points, without losing what matters."""

from __future__ import annotations

import math

import numpy as np
import pytest

from klarm.runs import Curve


def curve_of(values: list[float], at_once: int = 1_000, apart: int = 1) -> Curve:
    """Return the curve of values that are added some at a time, as a journal is read."""
    curve = Curve()
    for first in range(0, len(values), at_once):
        part = values[first : first + at_once]
        steps = apart * np.arange(first, first + len(part))
        curve.add(steps.astype(np.int64), np.array(part))
    return curve


@pytest.mark.parametrize("at_once", [1, 700, 200_000])
def test_a_long_run_is_thinned_evenly_and_loses_no_extreme(at_once: int) -> None:
    """The highest, the lowest and non-finite values are kept; every part of the run is there."""
    values = [1.0 + 0.001 * (step % 7) for step in range(200_000)]
    values[12_345], values[54_321], values[177_777] = 900.0, -5.0, math.nan
    curve = curve_of(values, at_once)
    steps = [step for step, _ in curve.points]
    assert 300 <= len(steps) <= 1_024
    assert steps == sorted(set(steps))
    per_tenth = np.histogram(steps, 10, (0, 200_000))[0]
    assert min(per_tenth) >= 20
    assert {(12_345, 900.0), (54_321, -5.0)} <= set(curve.points)
    assert [step for step, value in curve.points if math.isnan(value)] == [177_777]


def test_the_last_value_is_that_of_the_last_step() -> None:
    """Wherever points were merged."""
    curve = Curve()
    for step in range(5_000):
        curve.add(np.array([step]), np.array([float(step % 5)]))
        assert curve.last == step % 5


def test_a_sparkline_shows_the_whole_run() -> None:
    """Every spike is visible, and each character stands for the same number of steps."""
    values = [0.1] * 10_000
    values[5_050] = 3.0
    assert curve_of(values).sparkline(10) == "▁▁▁▁▁█▁▁▁▁"
    assert curve_of([0.1, 0.2]).sparkline(10) == "▁█"
    assert curve_of([]).sparkline(10) == ""
    assert curve_of([0.1, 0.2], apart=10).sparkline(10) == "▁█"


def test_steps_that_were_rolled_back_are_no_points() -> None:
    """Training went back to one, and it is logged again."""
    curve = curve_of([0.1, 0.2, 0.3])
    curve.go_back(1)
    assert curve.points == [(0, 0.1)]


def test_another_process_continues_a_curve() -> None:
    """As if it had read everything itself."""
    values = [float(step % 100) for step in range(9_000)]
    curve = curve_of(values[:5_000])
    restored = Curve(curve.saved())
    for one in (curve, restored):
        one.add(np.arange(5_000, 9_000), np.array(values[5_000:]))
    assert restored.points == curve.points
