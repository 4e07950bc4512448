"""When a metric left what was normal, as people are told: trends.py."""

from __future__ import annotations

import math

import pytest

from klarm.incidents.trends import RecentRows


def moved(*values: float, until: int) -> int:
    """Return from which step a metric is said to have moved."""
    recent = RecentRows()
    for step in range(until):
        recent.add(step, {"grad_norm": values[step]})
    (movement,) = recent.movements()
    return int(str(movement).rpartition(" from ")[2])


@pytest.mark.parametrize("growth", [1.05, 1.1, 1.2, 2.0])
def test_a_rise_by_a_factor_per_step_is_dated_by_its_beginning(growth: float) -> None:
    """From step 300 on. A quarter of the distance lies far behind that: 344, at 5 %."""
    noise = [0.02 * math.sin(step * 2.4) for step in range(400)]
    values = [(1.0 + noise[step]) * growth ** max(0, step - 300) for step in range(400)]
    until = 300 + min(int(math.log(20) / math.log(growth)), 45) + 5
    assert 300 <= moved(*values, until=until) <= 300 + (until - 300) // 3


def test_a_straight_rise_is_dated_as_before() -> None:
    """By a quarter of its way."""
    values = [1.0 + 0.01 * (step % 3) + 0.2 * max(0, step - 300) for step in range(400)]
    assert 300 <= moved(*values, until=340) <= 310
