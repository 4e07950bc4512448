"""Which step a call is about."""

from __future__ import annotations

import math

from cases import over
from klarm.monitor.steps import Timeline, whole_step


def test_steps_count_on_by_themselves() -> None:
    """From zero, or from the last one given."""
    timeline = Timeline()
    for given, meant in ((None, 0), (None, 1), (10, 10), (None, 11)):
        at, goes_on = timeline.place(given)
        timeline.new_at(at, {})
        assert (at, goes_on) == (meant, False)


@over("impossible", [math.nan, math.inf, -math.inf, 1e300, -5.0, 0.5])
def test_a_step_that_cannot_be_means_the_next(impossible: float) -> None:
    """Rather than none at all."""
    timeline = Timeline()
    timeline.new_at(41, {})
    assert timeline.place(whole_step(impossible)) == (42, False)


def test_a_lower_step_is_a_step_back_and_the_same_one_is_not() -> None:
    """Several dicts may make up one step."""
    timeline = Timeline()
    timeline.new_at(5, {"kl": 1.0})
    assert timeline.place(5) == (5, False)
    assert timeline.new_at(5, {"kl": 2.0, "loss": 3.0}) == {"loss": 3.0}
    assert timeline.new_at(5, {"loss": 4.0}) == {}
    assert timeline.place(4) == (4, True)
    assert timeline.steps_logged == 1


def test_the_first_step_after_a_restart_goes_on_from_before_it() -> None:
    """Whether it is the next one, an earlier one or not given at all."""
    for given, meant in ((None, 9), (9, 9), (6, 6), (8, 8)):
        timeline = Timeline()
        timeline.continue_after(8)
        assert timeline.place(given) == (meant, True)
        timeline.go_on_at(meant)
        assert timeline.place(None) == (meant, False)
