"""The small curves of the overview: the lowest and the highest value of each of a few pixels."""

from __future__ import annotations

import sqlite3

import numpy as np

from klarm.server.blocks import Points, RunBlocks, points_of
from klarm.server.packing import Columns
from klarm.server.series import Pixels, lowest_and_highest, sample
from klarm.server.summary import SHOWN_METRICS

_PIXELS = 24
# Up to this many rows, reading them all is faster than finding out which blocks must be read.
_MAX_ROWS = 4096

_Range = tuple[float, float]
_Curve = list[float | None]


def sparklines(
    database: sqlite3.Connection, run: int, whole: Columns | None = None
) -> dict[str, _Curve]:
    """Return the curves of the overview; None marks a part without any finite value.

    `whole` holds all rows of the run if they are in memory, so that nothing has to be read.
    """
    if whole is not None:
        steps = whole.steps
        drawn = from_rows(_in_memory(whole), (float(steps.min()), float(steps.max())))
    else:
        blocks = RunBlocks(database, run, "step")
        span = blocks.range()
        if span is None:
            return {}
        is_short = sum(block.rows for block in blocks.blocks) <= _MAX_ROWS
        drawn = from_rows(_read(blocks), span) if is_short else from_extremes(blocks, span)
    return {name: curve for name, curve in drawn.items() if curve}


def from_rows(points: dict[str, Points], span: _Range) -> dict[str, _Curve]:
    """Return the curves of a short run, given all values."""
    not_finite: dict[str, list[float]] = {}
    for name, (x, y) in points.items():
        finite = np.isfinite(y)
        if not finite.all():
            not_finite[name] = x[~finite].tolist()
            points[name] = Points(x[finite], y[finite])
    many = {name: curve for name, curve in points.items() if len(curve.x) > 2 * _PIXELS}
    if many:
        reduced = lowest_and_highest(list(many.values()), Pixels(*span, _PIXELS))
        points.update(zip(many, reduced, strict=True))
    return {
        name: _with_gaps(curve.x.tolist(), curve.y.tolist(), not_finite.get(name, []), span)
        for name, curve in points.items()
    }


def _in_memory(whole: Columns) -> dict[str, Points]:
    x = whole.steps.astype(np.float64)
    rises = bool((x[1:] >= x[:-1]).all())
    logged = {name: whole.of(name) for name in SHOWN_METRICS}
    return {name: points_of(x, y, rises=rises) for name, y in logged.items() if y is not None}


def _read(blocks: RunBlocks) -> dict[str, Points]:
    first_rows = [block.first_row for block in blocks.blocks]
    numbers = {name: blocks.metric_number(name) for name in SHOWN_METRICS}
    return {
        name: blocks.points(metric, first_rows)
        for name, metric in numbers.items()
        if metric is not None
    }


def from_extremes(blocks: RunBlocks, span: _Range) -> dict[str, _Curve]:
    """Return the curves of a long run, mostly from the stored extremes of its blocks."""
    found = {}
    for name in SHOWN_METRICS:
        sampled = sample(blocks, name, *span, _PIXELS)
        not_finite = [value.x for value in sampled.non_finite]
        found[name] = _with_gaps(sampled.x, sampled.y, not_finite, span)
    return found


def _with_gaps(x: list[float], y: list[float], not_finite: list[float], span: _Range) -> _Curve:
    """Return the values of a curve, with None where a part of it has no finite value."""
    y = _rounded(y)
    if not not_finite:
        return list(y)
    width = (span[1] - span[0]) / _PIXELS or 1.0
    with_values = {int((at - span[0]) / width) for at in x}
    gaps = {int((at - span[0]) / width): at for at in not_finite}
    points: list[tuple[float, float | None]] = list(zip(x, y, strict=True))
    points += [(at, None) for part, at in gaps.items() if part not in with_values]
    return [value for _, value in sorted(points, key=lambda point: point[0])]


def _rounded(values: list[float]) -> list[float]:
    """Return numbers with four digits; formatting them one by one would take twice as long."""
    return list(map(float, ("%.4g " * len(values) % tuple(values)).split()))
