"""The curve of a metric, drawn with characters; tests/runs has how it is thinned."""

from __future__ import annotations

import math

from klarm.cli.curve import Band, draw_curve
from klarm.runs import Value


def drawn(points: list[Value], **options: object) -> list[str]:
    return draw_curve(points, (51, 7), **options).plain.split("\n")  # type: ignore[arg-type]


def test_the_worse_end_of_a_column_is_drawn() -> None:
    """That is the highest value, or the lowest if lower is worse."""
    points = [(step, 5.0 if step == 500 else 1.0) for step in range(1000)]
    assert "●" in drawn(points)[0]
    assert "●" not in drawn([(step, 6.0 - value) for step, value in points], lowest=False)[6]
    assert "●" in drawn([(step, 6.0 - value) for step, value in points], lowest=True)[6]


def test_a_wide_range_is_logarithmic() -> None:
    """Then the middle of the axis is the geometric mean."""
    labels = [line.partition("│")[0].strip() for line in drawn([(0, 0.01), (1, 100.0)])]
    assert labels[:7] == ["100", "", "", "1", "", "", "0.01"]
    labels = [line.partition("│")[0].strip() for line in drawn([(0, -1.0), (1, 3.0)])]
    assert labels[:7] == ["3", "", "", "1", "", "", "-1"]


def labels_of(values: list[float]) -> list[str]:
    lines = drawn(list(enumerate(values)))
    return [line.partition("│")[0].strip() for line in lines[:7]]


def test_a_curve_over_many_decades_is_drawn_whole() -> None:
    """An explosion from 1e-4 to 1e8 keeps its beginning."""
    values = [10.0 ** (power / 10) for power in range(-40, 81)]
    labels = labels_of(values)
    assert (labels[0], labels[3], labels[6]) == ("1e8", "100", "0.0001")
    lines = drawn(list(enumerate(values)))
    assert [line.count("●") > 0 for line in lines[:7]] == [True] * 7


def test_a_few_values_near_zero_do_not_flatten_the_rest() -> None:
    """The scale ends six decades below the highest value, and says what is drawn at its end."""
    assert labels_of([1e-20, 0.0, 10.0])[6] == "≤1e-5"
    assert labels_of([1e-17] + [0.01] * 50 + [10.0] * 50)[6] == "≤1e-5"
    assert labels_of([0.0] + [0.01] * 50 + [10.0] * 50)[6] == "≤0.01"


def test_steps_of_an_incident_are_marked_on_the_axis() -> None:
    """So they are visible without colours."""
    axis = drawn([(step, 1.0) for step in range(40)], marked=(30, 39, "red"))[7]
    assert axis.strip() == "└" + "─" * 30 + "━" * 10


def test_values_that_are_not_finite_are_crosses_and_extremes_are_drawn() -> None:
    """Huge numbers do not raise."""
    assert "×" in drawn([(0, 1.0), (1, math.nan), (2, 2.0)])[0]
    assert drawn([(0, math.nan)]) == ["          no finite value to draw"]
    assert "●" in drawn([(0, -1.7e308), (1, 1.7e308)])[0]
    assert "●" in "".join(drawn([(0, 5.0)]))


def test_bands_and_lines_are_drawn_behind_a_curve_that_grows() -> None:
    """The scale and the axis are those of the whole curve, so that nothing jumps."""
    points = [(step, 10.0 ** (step / 10 - 2)) for step in range(41)]
    bands = [
        Band([(step, 0.01, 0.1) for step, _ in points], "░", "blue"),
        Band([(step, 100.0, 100.0) for step, _ in points], "─", "yellow"),
    ]
    rows = drawn(points, behind=bands, until=20)
    assert rows[8] == drawn(points)[8]
    cells = [row.partition("│")[2] for row in rows[:7]]
    assert {row[21:].strip() for row in cells} == {""}
    assert cells[0][:21] == "─" * 21
    assert cells[6][:21].strip("●") == "░" * cells[6].count("░") != ""
    assert ["".join(column).count("●") for column in zip(*cells, strict=True)][:21] == [1] * 21
