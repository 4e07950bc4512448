"""Down-sampling: every pixel keeps its lowest and its highest value."""

from __future__ import annotations

import math

from batches import FOLDER, RUN, written
from hypothesis import given
from hypothesis import strategies as st

from klarm.journal import Step
from klarm.runs import Axis, Columns, read_run
from klarm.server.series import MAX_NOT_FINITE, Sampled, sample

VALUES = st.one_of(st.none(), st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf]))


def columns_of(rows: list[tuple[int, float, float | None]]) -> Columns:
    """Return the rows of a journal with these steps, times and values."""
    steps = [
        (Step(step, time, {"kl": value} if value is not None else {"other": 1.0}), [])
        for step, time, value in rows
    ]
    written([(RUN, []), *steps])
    view = read_run(FOLDER)
    columns = Columns(view.store, view.run, [])
    while columns.read(view.state.read_to):
        pass
    return columns


def sampled(made: Columns, width: int, axis: Axis = "step") -> Sampled:
    low, high = made.span(axis) or (0.0, 0.0)
    return sample(made.points("kl", axis), low, high, width)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(-1, 9), VALUES), min_size=1, max_size=120),
    st.integers(1, 20),
    st.sampled_from(["step", "time"]),
)
def test_no_pixel_loses_its_extremes(
    gaps: list[tuple[int, int, float | None]], width: int, axis: Axis
) -> None:
    """Whatever the gaps between steps, even when the clock goes back."""
    step, time, rows = 0, 100.0, []
    for to_next_step, to_next_time, value in gaps:
        step, time = step + to_next_step, time + to_next_time
        rows.append((step, time, value))
    made = columns_of(rows)
    found = sampled(made, width, axis)
    place = 0 if axis == "step" else 1
    low, high = min(row[place] for row in rows), max(row[place] for row in rows)

    def pixel(x: float) -> int:
        return min(math.floor((x - low) / ((high - low) or 1.0) * width), width - 1)

    points = [(row[place], row[2]) for row in rows if row[2] is not None]
    finite = [(x, y) for x, y in points if math.isfinite(y)]
    assert found.count == len(finite)
    assert found.non_finite_count == len(points) - len(finite)
    assert found.x == sorted(found.x)
    assert len(found.x) <= 2 * width
    shown = list(zip(found.x, found.y, strict=True))
    assert set(shown) <= set(finite)
    for number in {pixel(x) for x, _ in finite}:
        values = [y for x, y in finite if pixel(x) == number]
        drawn = [y for x, y in shown if pixel(x) == number]
        assert (min(drawn), max(drawn)) == (min(values), max(values))
    if found.raw:
        assert sorted(shown) == sorted(finite)
    else:
        means = dict(zip(map(pixel, found.mean_x), found.mean_y, strict=True))
        for number, mean in means.items():
            values = [y for x, y in finite if pixel(x) == number]
            assert math.isclose(mean, sum(values) / len(values), abs_tol=1e-6)


def test_a_spike_of_one_step_is_there() -> None:
    """Of twenty thousand."""
    rows = [(step, float(step), 0.01 + step % 7 / 1000) for step in range(20_000)]
    rows[12_345] = (12_345, 12_345.0, 99.0)
    made = columns_of(rows)
    found = sampled(made, 50)
    assert (12_345.0, 99.0) in list(zip(found.x, found.y, strict=True))
    assert not found.raw
    assert len(found.x) <= 100


def test_a_part_of_the_range_is_drawn_in_full() -> None:
    """Zoomed in far enough, every value is there, and none from outside."""
    made = columns_of([(step, float(step), step / 3) for step in range(1000)])
    found = sample(made.points("kl"), 500, 519, 20)
    assert found.raw
    assert found.x == [float(step) for step in range(500, 520)]


def test_values_that_are_not_finite_are_listed() -> None:
    """With their place; of very many, some from everywhere."""
    made = columns_of([(1, 1.0, 0.5), (2, 2.0, math.nan), (3, 3.0, -math.inf)])
    found = sampled(made, 10)
    assert [(broken.x, broken.value) for broken in found.non_finite] == [
        (2.0, "NaN"),
        (3.0, "-Infinity"),
    ]
    made = columns_of([(step, float(step), math.nan) for step in range(3000)])
    found = sampled(made, 10)
    assert found.non_finite_count == 3000
    assert len(found.non_finite) <= MAX_NOT_FINITE
    assert found.x == []


def test_a_metric_that_is_not_there_has_no_points() -> None:
    """It is no error: another run of the comparison has it."""
    made = columns_of([(1, 1.0, 0.5)])
    assert sample(made.points("nope"), 0, 1, 10) == Sampled()
