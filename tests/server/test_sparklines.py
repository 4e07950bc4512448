"""The small curves of the overview: every pixel has its extremes, and gaps are seen."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from klarm.runs import Curve
from klarm.server.sparklines import sparklines

VALUES = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf]))


def drawn(values: dict[int, float]) -> list[float | None]:
    curve = Curve()
    curve.add(np.array(list(values), np.int64), np.array(list(values.values())))
    return sparklines({"kl": curve}, min(values), max(values)).get("kl", [])


@given(st.lists(VALUES, min_size=1, max_size=3000))
def test_the_extremes_of_a_run_are_in_its_small_curve(values: list[float]) -> None:
    """Whatever its length; what is not finite is a gap or not seen at all."""
    found = drawn(dict(enumerate(values)))
    finite = [value for value in values if math.isfinite(value)]
    shown = [value for value in found if value is not None]
    assert len(found) <= 2 * 24 + 24
    assert bool(shown) == bool(finite)
    if finite:
        assert math.isclose(max(shown), max(finite), rel_tol=1e-3)
        assert math.isclose(min(shown), min(finite), rel_tol=1e-3)


def test_a_part_without_a_finite_value_is_a_gap() -> None:
    """In its place."""
    values = {step: math.nan if 100 <= step < 200 else 1.0 for step in range(300)}
    found = drawn(values)
    assert None in found
    assert found[0] == found[-1] == 1.0
    assert drawn({5: math.nan}) == [None]


def test_a_run_without_steps_has_no_small_curve() -> None:
    """Nor has a metric without values."""
    assert sparklines({"kl": Curve()}, None, None) == {}
    assert sparklines({"kl": Curve()}, 1, 9) == {}
