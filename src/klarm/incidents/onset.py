"""When a metric began to move, in hindsight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from klarm.stats import median

# A movement that takes fewer rows than this from a quarter to three quarters of its way is a jump.
_MIN_GRADUAL = 5
# It is traced back if the metric had no trend before: if the medians of two halves of up to this
# many values differ by no more than this many of the usual steps from one value to the next.
_MAX_FLAT, _FLAT_STEPS = 50, 1.0
_MIN_FLAT = 5  # values in each half


def onset_of(
    values: Sequence[float],
    away: Sequence[float],
    normal: float,
    noise: float,
    min_distance: float,
    *,
    traced: bool,
) -> tuple[int, int]:
    """Return where a metric began to move to its last distance from normal, and was seen to move.

    It is seen to move from a quarter of the way on, and a jump began there: slow growth before is
    not part of it. A gradual movement from a level without a trend is traced back: the line through
    two points of its way shows where it left normal, after it was last within its noise.
    """
    side = math.copysign(1.0, away[-1])
    distances = [side * distance for distance in away]
    whole = distances[-1]
    quarter = _passed(distances, max(min_distance, whole / 4.0))
    lasted = _passed(distances, max(min_distance, whole * 0.75)) - quarter
    if lasted < _MIN_GRADUAL or not traced:
        return quarter, quarter
    if side > 0.0 and normal > 0.0:  # an explosion grows exponentially
        half, most = (normal * ((1.0 + whole / normal) ** share - 1.0) for share in (0.5, 0.75))
    else:
        half, most = whole * 0.5, whole * 0.75
    middle = _passed(distances, half)
    began = middle - 2 * (_passed(distances, most) - middle)
    within_noise = max((i for i in range(quarter) if distances[i] <= noise), default=-1)
    began = min(quarter, max(began, within_noise, 0) + 1)
    return (began if is_flat(values[:began]) else quarter), quarter


def is_flat(values: Sequence[float]) -> bool:
    """Return whether values have no trend, judging by both halves of the latest ones."""
    latest = values[-_MAX_FLAT:]
    if len(latest) < 2 * _MIN_FLAT:
        return False
    middle = len(latest) // 2
    steps = [abs(after - before) for before, after in pairwise(latest)]
    return abs(median(latest[middle:]) - median(latest[:middle])) <= _FLAT_STEPS * median(steps)


def _passed(distances: Sequence[float], distance: float) -> int:
    """Return the index from which on all are further than a distance; at most the last one."""
    first = len(distances) - 1
    while first > 0 and distances[first - 1] > distance:
        first -= 1
    return first
