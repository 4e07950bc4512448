"""A curve with its baseline band and thresholds, drawn with characters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text

_LABEL_WIDTH = 8
_POINT, _BAND, _WARNING, _CRITICAL = "●", "░", "─", "═"
_COLOURS = {"": "bright_cyan", "warning": "yellow", "critical": "bold red"}
_EXACT = 1e-6  # tolerance, as a fraction of a row
_WORST = ("", "warning", "critical")


@dataclass(frozen=True)
class Point:
    """One step of a curve: its value, baseline and thresholds, and the severity of its alert."""

    value: float
    mean: float
    spread: float
    warning_at: float
    critical_at: float
    severity: str = ""


def draw(
    points: Sequence[Point], steps: int, size: tuple[int, int], limits: tuple[float, float]
) -> Text:
    """Draw the points of a run that will have this many steps, on a logarithmic scale.

    A column shows the worst of the steps that share it, so that no spike is lost.
    """
    width, height = size[0] - _LABEL_WIDTH - 1, size[1]
    scale = _Scale(*limits, height)
    cells = [[(" ", "")] * width for _ in range(height)]
    for column in range(width):
        shared = points[_first(column, steps, width) : _first(column + 1, steps, width)]
        if shared:
            _draw_column(cells, column, shared, scale)
    axis = Text("─" * width, "dim")
    return framed(cells, scale.label, _LABEL_WIDTH, (1, steps), axis)


def framed(
    cells: Sequence[Sequence[tuple[str, str]]],
    label: Callable[[int], str],
    label_width: int,
    steps: tuple[int, int],
    axis: Text,
) -> Text:
    """Return rows of characters and styles with labels at the left, and the steps below."""
    text = Text(no_wrap=True)
    for row, line in enumerate(cells):
        text.append(f"{label(row):>{label_width - 1}} │", "dim")
        for character, style in line:
            text.append(character, style)
        text.append("\n")
    text.append(" " * label_width + "└", "dim").append_text(axis)
    first = f"step {steps[0]}"
    room = len(axis) - len(first)
    return text.append(f"\n{' ' * (label_width + 1)}{first}{steps[1]:>{room}}", "dim")


def _first(column: int, steps: int, width: int) -> int:
    """Return the first step that falls into a column."""
    return -(-column * steps // width)


def _draw_column(
    cells: list[list[tuple[str, str]]], column: int, shared: Sequence[Point], scale: _Scale
) -> None:
    last = shared[-1]
    for row in range(
        scale.row(last.mean + last.spread), scale.row(max(last.mean - last.spread, 0.0)) + 1
    ):
        cells[row][column] = (_BAND, "blue")
    cells[scale.row(last.warning_at)][column] = (_WARNING, "yellow")
    cells[scale.row(last.critical_at)][column] = (_CRITICAL, "red")
    highest = max(shared, key=lambda point: (_WORST.index(point.severity), point.value))
    cells[scale.row(highest.value)][column] = (_POINT, _COLOURS[highest.severity])


class _Scale:
    """A logarithmic scale that maps values to rows, with the largest value at the top."""

    def __init__(self, low: float, high: float, height: int) -> None:
        self._low, self._high, self._height = math.log10(low), math.log10(high), height

    def row(self, value: float) -> int:
        return min(max(round(self._place(math.log10(max(value, 1e-300)))), 0), self._height - 1)

    def label(self, row: int) -> str:
        """Return the power of ten that a row stands for exactly, if there is one."""
        for power in range(math.ceil(self._low), math.floor(self._high) + 1):
            if abs(self._place(power) - row) < _EXACT:
                return f"{10.0**power:g}"
        return ""

    def _place(self, power: float) -> float:
        """Return how many rows below the top a power of ten is."""
        return (self._high - power) / (self._high - self._low) * (self._height - 1)
