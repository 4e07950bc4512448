"""Downsampling: the lowest and the highest value of every pixel, so that no spike is lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from klarm.server.blocks import Points, RunBlocks
from klarm.server.packing import Floats

MAX_NOT_FINITE = 2000  # how many are listed
_MAX_PER_PIXEL = 64  # up to this many points per pixel, a division is faster than a binary search

_Ints = NDArray[np.int64]


class NotFinite(msgspec.Struct):
    """A value that is NaN or infinite, and where."""

    x: float
    value: str


class Sampled(msgspec.Struct):
    """A metric along an axis, with the extremes of every pixel."""

    x: list[float] = []
    y: list[float] = []
    raw: bool = True  # whether every finite value is included
    mean_x: list[float] = []
    mean_y: list[float] = []
    count: int = 0  # of finite values in the range
    non_finite: list[NotFinite] = []
    non_finite_count: int = 0


class _Parts(NamedTuple):
    """The extremes of parts that lie within one pixel each: whole blocks, or some of their rows."""

    pixel: _Ints
    low: Floats
    low_x: Floats
    high: Floats
    high_x: Floats
    total: Floats
    finite: _Ints


def sample(blocks: RunBlocks, name: str, low: float, high: float, width: int) -> Sampled:
    """Return a metric within a range of the axis, with at most two points per pixel.

    The extremes of each block are stored, so only blocks that extend over the edge of a pixel, or
    that contain values that are not finite, are read.
    """
    metric = blocks.metric_number(name)
    if metric is None:
        return Sampled()
    pixels = Pixels(low, high, width)
    within = {
        block.first_row: block
        for block in blocks.blocks
        if not blocks.rises or (block.high >= low and block.low <= high)
    }
    whole, to_read, not_finite = [], [], 0
    few = sum(block.rows for block in within.values()) <= 2 * width
    for first_row, finite, broken, *rest in blocks.database.execute(
        "SELECT first_row, finite, not_finite, total, low, low_step, low_time, high, high_step, "
        "high_time FROM extremes WHERE run = ? AND metric = ?",
        (blocks.run, metric),
    ):
        block = within.get(first_row)
        if block is None:
            continue
        not_finite += broken
        pixel = pixels.of_one(block.low)
        is_whole = blocks.rises and low <= block.low and block.high <= high
        if few or not is_whole or broken or pixel != pixels.of_one(block.high):
            to_read.append(first_row)
        elif finite:
            total, lowest, low_step, low_time, highest, high_step, high_time = rest
            on_steps = blocks.axis == "step"
            low_x, high_x = (low_step, high_step) if on_steps else (low_time, high_time)
            whole.append((pixel, lowest, low_x, highest, high_x, total, finite))
    points = blocks.points(metric, to_read)
    inside = slice(np.searchsorted(points.x, low), np.searchsorted(points.x, high, "right"))
    points = Points(points.x[inside], points.y[inside])
    broken_points = Points(np.zeros(0), np.zeros(0))
    if not_finite:
        finite_ones = np.isfinite(points.y)
        broken_points = Points(points.x[~finite_ones], points.y[~finite_ones])
        points = Points(points.x[finite_ones], points.y[finite_ones])
    count = len(points.x) + sum(part[-1] for part in whole)
    sampled = (
        Sampled(x=points.x.tolist(), y=points.y.tolist())
        if count <= 2 * width and not whole
        else _reduced(pixels, _merged(_of_points(pixels, points), _of_blocks(whole)))
    )
    sampled.count = count
    sampled.non_finite_count = len(broken_points.x)
    sampled.non_finite = _spread(broken_points)
    return sampled


def lowest_and_highest(curves: Sequence[Points], pixels: Pixels) -> list[Points]:
    """Return the lowest and the highest point of every pixel of several finite curves, in order.

    All curves are reduced in one pass: a short curve takes less time than the calls of numpy do.
    """
    x, y = (np.concatenate(parts) for parts in zip(*curves, strict=True))
    if not len(x):
        return list(curves)
    curve = np.repeat(np.arange(len(curves)), [len(points.x) for points in curves])
    pixel = pixels.of(x) + curve * pixels.width
    starts = _starts(pixel)
    counts = np.append(starts[1:], len(x)) - starts
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    at_low, at_high = (_first_equal(y, sought, starts, counts) for sought in (low, high))
    is_low_first = x[at_low] <= x[at_high]
    both = np.empty(2 * len(starts), np.int64)
    both[::2] = np.where(is_low_first, at_low, at_high)
    both[1::2] = np.where(is_low_first, at_high, at_low)
    kept = both[np.append(True, both[1:] != both[:-1])]  # a flat pixel has one point only
    ends = np.searchsorted(curve[kept], np.arange(len(curves)), side="right")[:-1]
    return [Points(x[part], y[part]) for part in np.split(kept, ends)]


class Pixels:
    """Divides a part of the axis into pixels."""

    def __init__(self, low: float, high: float, width: int) -> None:
        self.low, self.width = low, width
        self.span = (high - low) or 1.0

    def of_one(self, x: float) -> int:
        """Return the pixel of a value of x."""
        return min(max(math.floor((x - self.low) / self.span * self.width), 0), self.width - 1)

    def of(self, x: Floats) -> _Ints:
        """Return the pixels of values of x."""
        pixel = np.floor((x - self.low) / self.span * self.width).astype(np.int64)
        return np.minimum(np.maximum(pixel, 0), self.width - 1)  # faster than np.clip

    def groups(self, x: Floats) -> tuple[_Ints, _Ints]:
        """Return the pixels that contain values of an ascending x, and the first index in each.

        If there are very many values, a binary search finds the indices, for all pixels at once.
        """
        if len(x) <= _MAX_PER_PIXEL * self.width:
            pixel = self.of(x)
            starts = _starts(pixel)
            return pixel[starts], starts
        pixels = np.arange(self.width + 1)
        first, end = np.zeros(self.width + 1, np.int64), np.full(self.width + 1, len(x))
        while (open_ := first < end).any():
            middle = (first + end) // 2
            reached = self.of(x[np.minimum(middle, len(x) - 1)]) >= pixels
            end = np.where(open_ & reached, middle, end)
            first = np.where(open_ & ~reached, middle + 1, first)
        taken = np.flatnonzero(first[:-1] < first[1:])
        return taken, first[taken]

    def centres(self, pixel: _Ints) -> Floats:
        """Return the centres of pixels."""
        centres: Floats = self.low + (pixel + 0.5) / self.width * self.span
        return centres


def _of_points(pixels: Pixels, points: Points) -> _Parts:
    """Return the extremes of the pixels that contain finite points."""
    x, y = points
    if not len(x):
        return _of_blocks([])
    pixel, starts = pixels.groups(x)
    counts = np.append(starts[1:], len(x)) - starts
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduceat(y, starts)
    return _Parts(
        pixel,
        low,
        x[_first_equal(y, low, starts, counts)],
        high,
        x[_first_equal(y, high, starts, counts)],
        total,
        counts.astype(np.int64),
    )


def _first_equal(y: Floats, sought: Floats, starts: _Ints, counts: _Ints) -> _Ints:
    """Return the first index in each group that has the group's sought value."""
    found = np.flatnonzero(y == np.repeat(sought, counts))
    groups = np.searchsorted(starts, found, side="right")
    firsts: _Ints = found[_starts(groups)]
    return firsts


def _starts(values: _Ints) -> _Ints:
    """Return where each run of equal values begins."""
    differ = np.empty(len(values), np.bool_)
    differ[:1] = True
    np.not_equal(values[1:], values[:-1], out=differ[1:])
    return np.flatnonzero(differ)


def _of_blocks(whole: list[tuple[int, float, float, float, float, float, int]]) -> _Parts:
    columns = list(zip(*whole, strict=True)) if whole else [()] * 7
    pixel, low, low_x, high, high_x, total, count = columns
    return _Parts(
        np.array(pixel, dtype=np.int64),
        np.array(low, dtype=np.float64),
        np.array(low_x, dtype=np.float64),
        np.array(high, dtype=np.float64),
        np.array(high_x, dtype=np.float64),
        np.array(total, dtype=np.float64),
        np.array(count, dtype=np.int64),
    )


def _merged(points: _Parts, blocks: _Parts) -> _Parts:
    """Merge the parts of points and of blocks into one part per pixel."""
    if not len(blocks.pixel):
        return points
    joined = _Parts(*(np.concatenate(columns) for columns in zip(points, blocks, strict=True)))
    by_low = np.lexsort((joined.low_x, joined.low, joined.pixel))
    by_high = np.lexsort((joined.high_x, -joined.high, joined.pixel))
    pixel = joined.pixel[by_low]
    starts = _starts(pixel)
    lows, highs = by_low[starts], by_high[starts]
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduceat(joined.total[by_low], starts)
    return _Parts(
        pixel[starts],
        joined.low[lows],
        joined.low_x[lows],
        joined.high[highs],
        joined.high_x[highs],
        total,
        np.add.reduceat(joined.finite[by_low], starts),
    )


def _reduced(pixels: Pixels, parts: _Parts) -> Sampled:
    """Return the points to draw: the lowest and the highest of every pixel, in order."""
    differ = (parts.low_x != parts.high_x) | (parts.low != parts.high)
    x = np.concatenate([parts.low_x, parts.high_x[differ]])
    y = np.concatenate([parts.low, parts.high[differ]])
    order = np.argsort(x, kind="stable")
    mean = parts.total / np.maximum(parts.finite, 1)
    known = np.isfinite(mean)
    return Sampled(
        x=x[order].tolist(),
        y=y[order].tolist(),
        raw=False,
        mean_x=pixels.centres(parts.pixel[known]).tolist(),
        mean_y=mean[known].tolist(),
    )


def _spread(points: Points) -> list[NotFinite]:
    """List values that are not finite; if there are very many, an evenly spaced selection."""
    every = max(1, math.ceil(len(points.x) / MAX_NOT_FINITE))
    return [
        NotFinite(x, "NaN" if math.isnan(y) else "Infinity" if y > 0 else "-Infinity")
        for x, y in zip(points.x[::every].tolist(), points.y[::every].tolist(), strict=True)
    ]
