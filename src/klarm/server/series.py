"""Downsampling: the lowest and the highest value of every pixel, so that no spike is lost."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from klarm.runs import Floats, Ints, Points, counts_of, first_equal, starts_of
from klarm.server.summary import spelt

MAX_NOT_FINITE = 2000  # how many are listed


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


def sample(points: Points, low: float, high: float, width: int) -> Sampled:
    """Return a metric within a range of the axis, with at most two points per pixel."""
    inside = slice(np.searchsorted(points.x, low), np.searchsorted(points.x, high, "right"))
    points = Points(points.x[inside], points.y[inside])
    finite = np.isfinite(points.y)
    broken = Points(np.zeros(0), np.zeros(0))
    if not finite.all():
        broken = Points(points.x[~finite], points.y[~finite])
        points = Points(points.x[finite], points.y[finite])
    if len(points.x) <= 2 * width:
        sampled = Sampled(x=points.x.tolist(), y=points.y.tolist())
    else:
        sampled = _reduced(points, low, high, width)
    sampled.count = len(points.x)
    sampled.non_finite_count = len(broken.x)
    sampled.non_finite = _spread(broken)
    return sampled


def lowest_and_highest(points: Points, low: float, high: float, width: int) -> Points:
    """Return the lowest and the highest point of every pixel of a finite curve, in order."""
    starts = starts_of(pixels_of(points.x, low, high, width))
    indices = _extremes(points.y, starts)
    return Points(points.x[indices], points.y[indices])


def pixels_of(x: Floats, low: float, high: float, width: int) -> Ints:
    """Return in which of so many pixels values of an axis lie."""
    pixel = np.floor((x - low) / ((high - low) or 1.0) * width).astype(np.int64)
    return np.minimum(np.maximum(pixel, 0), width - 1)  # faster than np.clip


def _reduced(points: Points, low: float, high: float, width: int) -> Sampled:
    pixel = pixels_of(points.x, low, high, width)
    starts = starts_of(pixel)
    indices = _extremes(points.y, starts)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.add.reduceat(points.y, starts) / counts_of(starts, len(points.y))
    known = np.isfinite(mean)
    centres = low + (pixel[starts] + 0.5) / width * ((high - low) or 1.0)
    return Sampled(
        x=points.x[indices].tolist(),
        y=points.y[indices].tolist(),
        raw=False,
        mean_x=centres[known].tolist(),
        mean_y=mean[known].tolist(),
    )


def _extremes(y: Floats, starts: Ints) -> Ints:
    """Return the indices of the lowest and the highest value of each group, in order."""
    if not len(y):
        return np.zeros(0, np.int64)
    counts = counts_of(starts, len(y))
    lows = first_equal(y, np.minimum.reduceat(y, starts), starts, counts)
    highs = first_equal(y, np.maximum.reduceat(y, starts), starts, counts)
    return np.unique(np.concatenate([lows, highs]))


def _spread(points: Points) -> list[NotFinite]:
    """List values that are not finite; if there are very many, an evenly spaced selection."""
    every = max(1, math.ceil(len(points.x) / MAX_NOT_FINITE))
    return [
        NotFinite(x, str(spelt(y)))
        for x, y in zip(points.x[::every].tolist(), points.y[::every].tolist(), strict=True)
    ]
