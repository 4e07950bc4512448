"""Where the course of a metric bends: it went along a line, and then left it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from klarm.stats import MAD_TO_STD, median, scatter

# A line through fewer values than this shows no trend.
_MIN_BEFORE = 15
# Single values that are far off must not bend a line: medians of this many values are fitted.
_FITTED_MEDIAN_OF = 3
# From the onset on, the medians of this many values are off the line by more than the first number
# of noise units. The onset itself is off by more than the second: people must see it begin there.
_LASTING_MEDIAN_OF = 5
_AFTER = 3  # values after a single one that is far off, by luck, are not
_LASTING_NOISE, _UNLIKE_NOISE = 1.75, 2.5
# Noise alone seems to bend a line, too, but explains fewer squares of it than this.
_MIN_EVIDENCE = 16.0
# A scatter below this share of the level is rounding, not noise.
_MIN_RELATIVE_NOISE = 0.01


class _Line(NamedTuple):
    """The line that values follow up to a place, and then leave."""

    place: int
    level: float  # at that place
    slope: float  # before it
    evidence: float  # the sum of squares that the bend explains


def left_line(values: Sequence[float], side: float, *, by_factors: bool) -> int | None:
    """Return from where on values are off the line that they followed before, on one side.

    The last values must be off it. None if they are not, or if there are too few before. A line
    that goes the same way is continued, because what keeps falling as before does not begin to
    fall; one that goes the other way is not, because a reward that stops rising has not fallen.

    >>> left_line([0.5, 0.51] * 20 + [0.5 - 0.02 * step for step in range(10)], -1.0,
    ...           by_factors=False)
    41
    """
    in_logs = by_factors and min(values) > 0.0
    if in_logs:
        values = [math.log(value) for value in values]
    line = _bent_line(values, side)
    if line is None:
        return None
    slope = line.slope if line.slope * side > 0.0 else 0.0
    before = [
        value - line.level - line.slope * (place - line.place)
        for place, value in enumerate(values[: line.place])
    ]
    rounding = _MIN_RELATIVE_NOISE * (1.0 if in_logs else abs(line.level))
    noise = max(rounding, MAD_TO_STD * scatter(before, 0.0))
    if line.evidence < _MIN_EVIDENCE * noise * noise:
        return None
    off = [
        side * (value - line.level - slope * (place - line.place))
        for place, value in enumerate(values)
    ]
    return _first_off(off, line.place, noise)


def _first_off(off: Sequence[float], start: int, noise: float) -> int | None:
    """Return the first place from `start` on that is clearly off, and after which all are."""
    first = len(off) - _LASTING_MEDIAN_OF + 1
    while (
        first > start
        and median(off[first - 1 : first - 1 + _LASTING_MEDIAN_OF]) > _LASTING_NOISE * noise
    ):
        first -= 1
    for place in range(first, len(off) - _LASTING_MEDIAN_OF + 1):
        after = off[place + 1 : place + 1 + _AFTER]
        if off[place] > _UNLIKE_NOISE * noise and median(after) > _LASTING_NOISE * noise:
            return place
    return None


def _bent_line(values: Sequence[float], side: float) -> _Line | None:
    """Return the line before the bend that fits best, by least squares.

    For every bend, the sums that the fit needs follow from sums over all later values, so that this
    takes a few operations per value.
    """
    count = len(values)
    half = _FITTED_MEDIAN_OF // 2
    fitted = [median(values[max(0, i - half) : i + half + 1]) for i in range(count)]
    centre, level = (count - 1) / 2, median(fitted)
    places = [place - centre for place in range(count)]
    heights = [value - level for value in fitted]
    size = max(map(abs, heights), default=0.0)
    if not 0.0 < size < math.inf:
        return None
    heights = [height / size for height in heights]
    sum_p2 = sum(place * place for place in places)
    sum_h = sum(heights)
    sum_ph = sum(map(float.__mul__, places, heights))
    # Sums over the values from each place on: number, places, their squares, heights, products.
    rest = []
    n = p1 = p2 = h1 = ph = 0.0
    for p, h in zip(reversed(places), reversed(heights), strict=True):
        n, p1, p2, h1, ph = n + 1.0, p1 + p, p2 + p * p, h1 + h, ph + p * h
        rest.append((n, p1, p2, h1, ph))
    rest.reverse()
    best, found = 0.0, None
    for i in range(_MIN_BEFORE, count - 1):
        n, p1, p2, h1, ph = rest[i]
        p = places[i]
        # The bend is a second line, max(0, place - p); u stands for it.
        sum_u, sum_u2 = p1 - n * p, p2 - 2 * p * p1 + n * p * p
        sum_pu, sum_uh = p2 - p * p1, ph - p * h1
        # What the first line explains of it is taken out.
        mean_u, slope_u = sum_u / count, sum_pu / sum_p2
        left_u2 = sum_u2 - count * mean_u**2 - slope_u**2 * sum_p2
        left_uh = sum_uh - mean_u * sum_h - slope_u * sum_ph
        if left_u2 <= 0.0 or left_uh * side <= 0.0:
            continue
        explained = left_uh**2 / left_u2
        if explained > best:
            best = explained
            bend = left_uh / left_u2
            slope = sum_ph / sum_p2 - bend * slope_u
            at = sum_h / count - bend * mean_u + slope * p
            found = _Line(i, level + size * at, size * slope, size * size * explained)
    return found
