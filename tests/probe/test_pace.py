"""How often the probe measures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klarm.probe.pace import Pace


def measured_at(
    pace: Pace, steps: int, step_seconds: float, cost: float
) -> tuple[list[int], float]:
    """Return the steps that are measured, and the share of the training that this took."""
    now, found, spent = 0.0, [], 0.0
    for step in range(1, steps + 1):
        now += step_seconds
        if pace.is_due(step, now):
            pace.measured(step, now, now + cost)
            now += cost
            spent += cost
            found.append(step)
    return found, spent / (steps * step_seconds)


def test_a_cheap_measurement_is_made_as_often_as_asked_for() -> None:
    """At every step, or every fifth."""
    assert measured_at(Pace(1, 0.01), 10, 1.0, 0.001)[0] == list(range(1, 11))
    assert measured_at(Pace(1, None), 10, 1.0, 100.0)[0] == list(range(1, 11))
    assert measured_at(Pace(5, 0.01), 20, 1.0, 0.001)[0] == [1, 6, 11, 16]


@given(
    cost=st.floats(1e-3, 10.0),
    max_share=st.floats(0.001, 1.0),
    every=st.integers(1, 20),
)
def test_the_share_is_never_exceeded_by_more_than_the_first(
    cost: float, max_share: float, every: int
) -> None:
    """However dear a measurement is; the first one is on credit, and paid back."""
    _, share = measured_at(Pace(every, max_share), 500, 1.0, cost)
    assert share <= max_share + cost / 500 + 1e-9


def test_a_long_pause_buys_no_series_of_measurements() -> None:
    """An evaluation of an hour is no training."""
    pace = Pace(1, 0.01)
    pace.measured(1, 0.0, 1.0)
    assert pace.is_due(2, 3600.0)
    pace.measured(2, 3600.0, 3601.0)
    due = []
    for step in range(3, 20):
        due.append(pace.is_due(step, 3601.0 + step))
        if due[-1]:
            pace.measured(step, 3601.0 + step, 3602.0 + step)
    assert sum(due) == 1


def test_a_clock_that_goes_back_costs_nothing() -> None:
    """Nothing is saved up then, and nothing raises."""
    pace = Pace(1, 0.01)
    pace.measured(1, 100.0, 101.0)
    assert not pace.is_due(2, 50.0)
    pace.measured(2, 60.0, 55.0)
    assert pace.spent == pytest.approx(1.0)


def test_a_run_that_went_back_is_measured_at_once() -> None:
    """Its curve should not have a gap where it begins again."""
    pace = Pace(100, 1.0)
    pace.measured(500, 0.0, 0.1)
    assert pace.is_due(301, 0.2)
