"""The curve of `klarm demo`, drawn with characters."""

from __future__ import annotations

from klarm.cli.chart import Point, draw

SIZE, LIMITS = (29, 5), (0.01, 100.0)  # 20 columns; a row per decade


def point(value: float, severity: str = "") -> Point:
    return Point(value, 0.1, 0.0, 1.0, 10.0, severity)


def rows(points: list[Point], steps: int = 20) -> list[str]:
    return draw(points, steps, SIZE, LIMITS).plain.split("\n")


def test_the_largest_value_is_at_the_top_and_a_decade_is_a_row() -> None:
    """Each row is labelled with its power of ten."""
    drawn = rows([point(100.0), point(0.01)])
    assert [row.partition("│")[0].strip() for row in drawn[:5]] == ["100", "10", "1", "0.1", "0.01"]
    assert drawn[0].partition("│")[2][0] == "●"
    assert drawn[4].partition("│")[2][1] == "●"


def test_thresholds_and_band_are_drawn_up_to_the_current_step() -> None:
    """The other columns are empty."""
    drawn = [row.partition("│")[2] for row in rows([point(0.01)] * 3)[:5]]
    assert drawn[1:4] == ["═══" + " " * 17, "───" + " " * 17, "░░░" + " " * 17]


def test_no_spike_is_lost_where_steps_share_a_column() -> None:
    """The worst of the steps is shown."""
    points = [point(0.01) for _ in range(200)]
    points[105] = point(100.0, "critical")
    top = rows(points, 200)[0].partition("│")[2]
    assert [column for column, drawn in enumerate(top) if drawn == "●"] == [10]


def test_values_beyond_the_limits_are_drawn_at_the_edge() -> None:
    """Nothing is drawn outside the chart."""
    drawn = [row.partition("│")[2] for row in rows([point(1e9), point(0.0)])]
    assert (drawn[0][0], drawn[4][1]) == ("●", "●")


def test_the_last_line_counts_the_steps() -> None:
    """It shows the first and the last step."""
    assert rows([], 250)[-1].split() == ["step", "1", "250"]


def test_a_label_stands_only_on_the_row_of_its_value() -> None:
    """With too few rows for all decades, some are not labelled."""
    drawn = draw([point(0.3)], 20, (29, 7), LIMITS).plain.split("\n")
    labels = [row.partition("│")[0].strip() for row in drawn[:7]]
    assert labels == ["100", "", "", "1", "", "", "0.01"]
