"""The curve of a metric over the steps of a run, drawn with characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from klarm.runs import Value, column_of, columns_of
from klarm.wording import number

_WIDE = 30.0  # a scale is logarithmic if the largest value is this many times the smallest
# A few values near zero, such as the KL of the first steps, must not flatten the rest of a curve.
# So a logarithmic scale of more than six decades leaves out the lowest values if there are few (one
# in 20, or a single one) and the next one is at least 100 times higher.
_MAX_RANGE, _VALUES_PER_OUTLIER, _OUTLIER_GAP = 1e6, 20, 100.0
_LABEL_WIDTH = 10
_POINT, _BROKEN = "●", "×"


class Band(NamedTuple):
    """What is drawn behind a curve: at each step from a value up to another, or one as a line."""

    ranges: Sequence[tuple[int, float, float]]  # step, lowest and highest value
    character: str
    colour: str


def scale_of(points: Sequence[Value]) -> str:
    """Return what to add to the heading of a curve: empty, or that its scale is logarithmic."""
    finite = [value for _, value in points if math.isfinite(value)]
    return " (logarithmic)" if finite and _Scale(finite, 2).is_log else ""


def draw_curve(
    points: Sequence[Value],
    size: tuple[int, int],
    *,
    lowest: bool = False,
    marked: tuple[int, int, str] | None = None,
    behind: Sequence[Band] = (),
    until: int | None = None,
) -> Text:
    """Draw a curve in a size of columns and rows, logarithmic if its values span a wide range.

    A column shows the highest value of its steps, or the lowest if `lowest` is set. `marked` is a
    first step, a last step and a colour: these steps are coloured, and marked on the axis. A curve
    that grows is drawn `until` a step; its axis and its scale are those of the whole curve.
    """
    width, height = size[0] - _LABEL_WIDTH - 1, size[1]
    finite = [value for _, value in points if math.isfinite(value)]
    if not finite:
        return Text(" " * _LABEL_WIDTH + "no finite value to draw")
    finite += [highest for band in behind for _, _, highest in band.ranges]
    scale = _Scale(finite, height)
    first, last = points[0][0], points[-1][0]
    end = last if until is None else until
    cells = [[(" ", "")] * width for _ in range(height)]
    for band in behind:
        drawn = {column_of(r[0], first, last, width): r[1:] for r in band.ranges if r[0] <= end}
        for at, (low, high) in drawn.items():  # of the last step of a column
            for row in range(scale.row(high), scale.row(low) + 1):
                cells[row][at] = (band.character, band.colour)
    shown = [point for point in points if point[0] <= end]
    for at, column in enumerate(columns_of(shown, first, last, width)):
        numbers = [value for _, value in column if math.isfinite(value)]
        is_marked = marked is not None and any(marked[0] <= s <= marked[1] for s, _ in column)
        colour = marked[2] if marked is not None and is_marked else "bright_cyan"
        if numbers:
            row = scale.row(min(numbers) if lowest else max(numbers))
            cells[row][at] = (_POINT, colour)
        if len(numbers) < len(column):
            cells[0][at] = (_BROKEN, "bold red")
    text = Text(no_wrap=True)
    for row, line in enumerate(cells):
        text.append(f"{scale.label(row):>{_LABEL_WIDTH - 1}} │", "dim")
        for character, style in line:
            text.append(character, style)
        text.append("\n")
    text.append(" " * _LABEL_WIDTH + "└", "dim").append_text(_axis((first, last), width, marked))
    begin = f"step {first}"
    return text.append(f"\n{' ' * (_LABEL_WIDTH + 1)}{begin}{last:>{width - len(begin)}}", "dim")


def _axis(steps: tuple[int, int], width: int, marked: tuple[int, int, str] | None) -> Text:
    axis = Text("─" * width, "dim")
    if marked is not None and marked[0] <= steps[1]:
        begin, end = (column_of(step, *steps, width) for step in marked[:2])
        marks = Text("━" * (end + 1 - begin), marked[2])
        axis = Text.assemble(axis[:begin], marks, axis[end + 1 :])
    return axis


def _lowest_typical(ascending: Sequence[float]) -> float:
    """Return the lowest value that is not an outlier."""
    at = min(1 + len(ascending) // _VALUES_PER_OUTLIER, len(ascending) - 1)
    while at > 0 and ascending[at] < _OUTLIER_GAP * ascending[at - 1]:
        at -= 1
    return ascending[at]


class _Scale:
    """A scale that maps values to rows, with the largest value at the top."""

    def __init__(self, values: Sequence[float], height: int) -> None:
        low, high = min(values), max(values)
        positive = sorted(value for value in values if value > 0)
        smallest = positive[0] if positive else 0.0
        self.is_log = low >= 0 and smallest > 0 and high > _WIDE * smallest
        if self.is_log:
            self._floor = max(smallest, min(high / _MAX_RANGE, _lowest_typical(positive)))
        # Lower values, zero among them, are drawn at the bottom, and its label says so.
        self._is_cut = self.is_log and low < self._floor
        self._low, self._high = self._place(low), self._place(high)
        self._height = height

    def row(self, value: float) -> int:
        # Halved first, because the difference of the two may exceed the range of floats.
        span = self._high / 2 - self._low / 2
        share = (self._place(value) / 2 - self._low / 2) / span if span > 0 else 0.5
        return min(max(round((1.0 - share) * (self._height - 1)), 0), self._height - 1)

    def label(self, row: int) -> str:
        """Return the value of a row at the top, in the middle or at the bottom, else nothing."""
        if row not in (0, (self._height - 1) // 2, self._height - 1):
            return ""
        if self._low == self._high:
            return number(self._at(self._low)) if row == self.row(self._at(self._low)) else ""
        share = 1.0 - row / (self._height - 1) if self._height > 1 else 1.0
        cut = "≤" if self._is_cut and row == self._height - 1 else ""
        return cut + number(self._at(self._high * share + self._low * (1.0 - share)))

    def _place(self, value: float) -> float:
        return math.log10(max(value, self._floor)) if self.is_log else value

    def _at(self, place: float) -> float:
        return float(10.0**place) if self.is_log else place
