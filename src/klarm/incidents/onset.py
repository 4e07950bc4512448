"""When a metric began to move, in hindsight."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from klarm.stats import MAD_TO_STD, median, scatter

# A movement that takes fewer rows than this from a quarter to three quarters of its way is a jump.
_MIN_GRADUAL = 5
# It is traced back if the metric had no trend before: if the medians of two halves of up to this
# many values differ by no more than this many of the usual steps from one value to the next.
_MAX_FLAT, _FLAT_STEPS = 50, 1.0
_MIN_FLAT = 5  # values in each half
# A metric has left its trend where it is beyond it by the first share and the first multiple of its
# noise, if by now it is beyond it by the second ones. A rise to 1.5 times is a fall to 1 / 1.5.
_BEYOND_SHARES = 0.25, 0.5
_LEFT_NOISE, _GONE_NOISE = 2.0, 4.0
# A value is clearly unlike up to this many values before it if it is further from their level than
# this many times their noise, and than this share of the level. Noise goes as far once in a while,
# so two values in a row that are like those before end the search. The last few are left out,
# because the movement may have begun in them.
_ROWS_BEFORE, _MIN_ROWS_BEFORE, _LEFT_OUT = 30, 5, 5
_UNLIKE_NOISE, _UNLIKE_SHARE = 2.5, 0.05
_LIKE_IN_A_ROW = 2
# A reward is so noisy that the median of this many values is judged instead.
_NOISY_MEDIAN_OF = 5

# Scales on which trends are lines, each with its inverse, which must not overflow.
_Scale = tuple[Callable[[float], float], Callable[[float], float]]
_PLAIN: _Scale = (lambda value: value, lambda value: value)
_SQUARES: _Scale = (math.sqrt, lambda value: value * value)
_EXPONENTIAL: _Scale = (math.log, lambda value: math.exp(min(value, 700.0)))


def onset_of(
    values: Sequence[float],
    away: Sequence[float],
    normal: float,
    noise: float,
    min_distance: float,
    *,
    traced: bool,
) -> tuple[int, int, bool]:
    """Return where a metric began to move, where that was seen, and whether it moved gradually.

    The movement is the one to its last distance from normal. It is seen from a quarter of the way
    on, and a jump began there: slow growth before is not part of it. A gradual movement from a
    level without a trend is traced back: the line through two points of its way shows where it left
    normal, after it was last within its noise. `away` are distances of running medians.
    """
    side = math.copysign(1.0, away[-1])
    distances = [side * distance for distance in away]
    whole = distances[-1]
    quarter = _passed(distances, max(min_distance, whole / 4.0))
    lasted = _passed(distances, max(min_distance, whole * 0.75)) - quarter
    if lasted < _MIN_GRADUAL or not traced:
        # The way to what counts as a movement may be most of it.
        lasted = _passed(distances, whole * 0.75) - _passed(distances, whole / 4.0)
        return quarter, quarter, lasted >= _MIN_GRADUAL
    if side > 0.0 and normal > 0.0:  # an explosion grows exponentially
        half, most = (normal * ((1.0 + whole / normal) ** share - 1.0) for share in (0.5, 0.75))
    else:
        half, most = whole * 0.5, whole * 0.75
    middle = _passed(distances, half)
    began = middle - 2 * (_passed(distances, most) - middle)
    within_noise = max((i for i in range(quarter) if distances[i] <= noise), default=-1)
    began = min(quarter, max(began, within_noise, 0) + 1)
    return (began if is_flat(values[:began]) else quarter), quarter, True


def first_unlike(
    values: Sequence[float], noise: float, side: float, *, began: int, evident: int
) -> int:
    """Return the first value from `began` on that is clearly unlike those before it.

    From there to the one at which the movement was evident, nearly all are: a reader who looks at
    the curve must see it begin there. `noise` is that of more values, if it is larger.
    """
    end = max(0, began - _LEFT_OUT)
    before = values[max(0, end - _ROWS_BEFORE) : end]
    if len(before) < _MIN_ROWS_BEFORE:
        return began
    level = median(before)
    noise = max(noise, MAD_TO_STD * scatter(before, level))
    limit = max(_UNLIKE_NOISE * noise, _UNLIKE_SHARE * abs(level))
    unlike = [
        place for place in range(began, len(values)) if side * (values[place] - level) > limit
    ]
    if not unlike:
        return began
    first = max((place for place in unlike if place <= evident), default=unlike[0])
    for place in reversed([place for place in unlike if place < first]):
        if first - place > _LIKE_IN_A_ROW:
            break
        first = place
    return first


def left_level(
    values: Sequence[float], evident: int, normal: float, noise: float, side: float
) -> int:
    """Return from where on a noisy metric was beyond its normal level, until that was evident."""
    medians = [
        median(values[place : place + _NOISY_MEDIAN_OF])
        for place in range(len(values) - _NOISY_MEDIAN_OF + 1)
    ]
    middle = _NOISY_MEDIAN_OF // 2
    limit = _LEFT_NOISE * noise
    first = evident
    while first > middle and side * (medians[first - 1 - middle] - normal) > limit:
        first -= 1
    return first


def is_flat(values: Sequence[float]) -> bool:
    """Return whether values have no trend, judging by both halves of the latest ones."""
    latest = values[-_MAX_FLAT:]
    if len(latest) < 2 * _MIN_FLAT:
        return False
    middle = len(latest) // 2
    steps = [abs(after - before) for before, after in pairwise(latest)]
    return abs(median(latest[middle:]) - median(latest[:middle])) <= _FLAT_STEPS * median(steps)


def left_trend(
    values: Sequence[float],
    levels: Sequence[float],
    side: float,
    offset: int,
    *,
    by_factors: bool,
) -> int | None:
    """Return from where on a metric is beyond the trend of its first values, on the side it moved.

    0 if these have no such trend, None if their trend explains all of the movement. `levels` are
    running medians of all values, each of which stands for the value `offset` places further on.
    `by_factors` says that its ratios are compared: others have left their trend when they have gone
    twice as far as it leads.
    """
    trend = _trend_of(values, side)
    if trend is None:
        return 0
    noise = MAD_TO_STD * scatter((v - trend(at) for at, v in enumerate(values)), 0.0)
    expected = [trend(place + offset) for place in range(len(levels))]
    beyond = [side * (level - known) for level, known in zip(levels, expected, strict=True)]
    left, gone = (share if side > 0.0 else share / (1.0 + share) for share in _BEYOND_SHARES)
    # How far the trend leads from the middle of the first values to the last one.
    leads = math.inf if by_factors else abs(expected[-1] - median(values))
    if beyond[-1] <= max(min(gone * abs(expected[-1]), leads), _GONE_NOISE * noise):
        return None
    first = len(beyond) - 1
    while first and beyond[first - 1] > max(
        min(left * abs(expected[first - 1]), leads / 2.0), _LEFT_NOISE * noise
    ):
        first -= 1
    return first


def _trend_of(values: Sequence[float], side: float) -> Callable[[float], float] | None:
    """Return the level that a trend predicts for each place; None if there is none on that side."""
    if is_flat(values):
        return None
    # If a policy drifts steadily, its KL grows with the square of the way. What is positive and
    # falls steadily does not fall below 0.
    scaled, unscaled = _PLAIN
    if min(values) > 0.0:
        scaled, unscaled = _SQUARES if side > 0.0 else _EXPONENTIAL
    half = len(values) // 2
    earlier, later = (scaled(median(part)) for part in (values[:half], values[half:]))
    slope = (later - earlier) / (len(values) / 2)
    if slope * side <= 0.0:
        return None
    return lambda place: unscaled(earlier + slope * (place - (half - 1) / 2))


def _passed(distances: Sequence[float], distance: float) -> int:
    """Return the index from which on all are further than a distance; at most the last one."""
    first = len(distances) - 1
    while first > 0 and distances[first - 1] > distance:
        first -= 1
    return first
