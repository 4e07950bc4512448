"""A thinned curve of a metric over a run of any length, kept up to date as the run grows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from klarm.channels.sparkline import sparkline
from klarm.runs.extremes import Floats, Ints, in_order, lowest_and_highest, starts_of

Value = tuple[int, float]  # step and value

_MAX_POINTS = 1_024


class SavedCurve(msgspec.Struct, array_like=True):
    """A curve as bytes, which another process continues."""

    stride: int = 1
    steps: bytes = b""
    values: bytes = b""


class Curve:
    """At most 1,024 points: where steps are merged, their extremes and a value that is not finite.

    All points stand for the same number of steps, except the latest, which are not merged yet.
    """

    def __init__(self, saved: SavedCurve | None = None) -> None:
        saved = saved or SavedCurve()
        self.steps: Ints = np.frombuffer(saved.steps, np.int64)
        self.values: Floats = np.frombuffer(saved.values, np.float64)
        self._stride = saved.stride  # how many steps are merged into one

    def add(self, steps: Ints, values: Floats) -> None:
        """Add values in the order in which they were logged."""
        self.steps = np.concatenate([self.steps, steps])
        self.values = np.concatenate([self.values, values])
        if len(self.steps) > _MAX_POINTS:
            self._thin()
            while len(self.steps) > _MAX_POINTS // 2:
                self._stride *= 2
                self._thin()

    def go_back(self, step: int) -> None:
        """Remove a step and all later ones, because training went back to it."""
        kept = self.steps < step
        self.steps, self.values = self.steps[kept], self.values[kept]

    @property
    def points(self) -> list[Value]:
        """The points: steps and values."""
        return list(zip(self.steps.tolist(), self.values.tolist(), strict=True))

    @property
    def last(self) -> float | None:
        """The latest value."""
        return float(self.values[-1]) if len(self.values) else None

    def saved(self) -> SavedCurve:
        """Return the curve as bytes."""
        return SavedCurve(self._stride, self.steps.tobytes(), self.values.tobytes())

    def sparkline(self, width: int) -> str:
        """Return the whole run as one line, with the same number of steps per character."""
        points = self.points
        if not points:
            return ""
        first, last = points[0][0], points[-1][0]
        columns = min(width, last - first + 1, len(points))
        # Thinned points are not evenly spaced, so columns are made of steps, not of points.
        shown: list[float] = []
        for column in columns_of(points, first, last, columns):
            shown.append(_farthest(column) if column else shown[-1])
        return sparkline(shown, width)

    def _thin(self) -> None:
        group = self.steps // self._stride
        finite = np.flatnonzero(np.isfinite(self.values))
        kept = [np.array([len(self.steps) - 1])]  # so that the latest value is known
        if len(finite):
            low, high = lowest_and_highest(self.values[finite], starts_of(group[finite]))
            kept += [finite[low], finite[high]]
        broken = np.flatnonzero(~np.isfinite(self.values))
        if len(broken):
            kept.append(broken[starts_of(group[broken])])
        indices = in_order(*kept)
        self.steps, self.values = self.steps[indices], self.values[indices]


def column_of(step: int, first: int, last: int, width: int) -> int:
    """Return the column of a step in a drawing from the first to the last step."""
    share = (step - first) / (last - first) if last > first else 0.0
    return min(max(int(share * width), 0), width - 1)


def columns_of(points: Sequence[Value], first: int, last: int, width: int) -> list[list[Value]]:
    """Return the points of each column of a drawing."""
    columns: list[list[Value]] = [[] for _ in range(width)]
    for point in points:
        columns[column_of(point[0], first, last, width)].append(point)
    return columns


def _farthest(points: Sequence[Value]) -> float:
    """Return the value that a character shows: a non-finite one, or else the highest."""
    return max((v for _, v in points), key=lambda v: v if math.isfinite(v) else math.inf)
