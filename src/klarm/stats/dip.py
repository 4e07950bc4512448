"""The dip test: how far a sample is from having one peak, and how likely that is by chance.

J. A. Hartigan and P. M. Hartigan, "The dip test of unimodality", Annals of Statistics 13 (1985).
Plain Python, written from that paper.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from math import exp, inf, log, sqrt

_Corner = tuple[float, int]

# For each sample size n, the values that sqrt(n) * dip of a uniform sample exceeds with each of
# the probabilities. Simulated with the code below, with 20,000 samples per size:
#     draw = Random(n)
#     found = sorted(sqrt(n) * dip([draw.random() for _ in range(n)]) for _ in range(20_000))
#     [round(found[int(20_000 * (1 - p))], 4) for p in _PROBABILITIES]
_PROBABILITIES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001)
_LIMITS = {
    10: [0.3095, 0.3759, 0.412, 0.4414, 0.4781, 0.5034, 0.5278, 0.5765],
    20: [0.3282, 0.3946, 0.4351, 0.4704, 0.5117, 0.5408, 0.5734, 0.6314],
    50: [0.3452, 0.4159, 0.4593, 0.4968, 0.5422, 0.5728, 0.6054, 0.6735],
    100: [0.3529, 0.4263, 0.4699, 0.5094, 0.5587, 0.589, 0.6235, 0.6791],
    200: [0.3624, 0.436, 0.4814, 0.5223, 0.5674, 0.5988, 0.6318, 0.6896],
    500: [0.368, 0.4416, 0.4891, 0.5289, 0.5807, 0.6124, 0.6513, 0.7088],
    1000: [0.3716, 0.4455, 0.4921, 0.5321, 0.5828, 0.6164, 0.6507, 0.7231],
}


def dip(values: Iterable[float]) -> float:
    """Return the distance between a sample and the nearest distribution with one peak.

    The distance is the largest gap between the two distribution functions, at least 1/(2n). The
    modal interval is narrowed from both ends until the sample is as far from its hulls outside the
    interval as inside it.

    >>> dip([1, 2, 3, 4, 5])
    0.1
    >>> dip([1, 1.1, 1.2, 9, 9.1, 9.2])
    0.24375
    """
    places, below, upto = _steps(values)
    if not places:
        return 0.0
    first, last = 0, len(places) - 1
    widest = 1.0  # twice the dip, in counts
    while first < last:
        minorant = _hull([(places[i], below[i]) for i in range(first, last + 1)], 1)
        majorant = _hull([(places[i], upto[i]) for i in range(first, last + 1)], -1)
        gap, left, right = _widest_gap(minorant, majorant)
        if gap <= widest:
            break
        new_first, new_last = bisect_left(places, left), bisect_left(places, right)
        # The ends of the modal interval are left out: the peak may consist of equal values.
        under = _heights(minorant, places[first:new_first])
        over = _heights(majorant, places[new_last + 1 : last + 1])
        widest = max(
            [
                widest,
                *(top - height for top, height in zip(upto[first:new_first], under, strict=True)),
                *(height - low for low, height in zip(below[new_last + 1 :], over, strict=False)),
            ]
        )
        if (new_first, new_last) == (first, last):
            break
        first, last = new_first, new_last
    return widest / (2 * upto[-1])


def dip_p_value(distance: float, count: int) -> float:
    """Return the probability that a uniform sample of this size has a dip at least as large.

    The uniform distribution is the least favourable one with a single peak. The probability is
    interpolated in a table, on the logarithm of the size and of the probability. The smallest value
    returned is 0.001.

    >>> dip_p_value(0.02, 100) > 0.5, dip_p_value(0.09, 100) < 0.01
    (True, True)
    """
    scaled = sqrt(count) * distance
    limits = _limits(count)
    lower, more_likely = 0.0, 1.0
    for limit, probability in zip(limits, _PROBABILITIES, strict=True):
        if scaled < limit:
            share = (scaled - lower) / (limit - lower)
            return exp(log(more_likely) * (1 - share) + log(probability) * share)
        lower, more_likely = limit, probability
    return _PROBABILITIES[-1]


def _limits(count: int) -> list[float]:
    """Return the table's row for a sample size."""
    sizes = list(_LIMITS)
    after = bisect_left(sizes, count)
    if after == 0 or after == len(sizes):
        return _LIMITS[sizes[min(after, len(sizes) - 1)]]
    small, large = sizes[after - 1], sizes[after]
    share = log(count / small) / log(large / small)
    return [a + (b - a) * share for a, b in zip(_LIMITS[small], _LIMITS[large], strict=True)]


def _steps(values: Iterable[float]) -> tuple[list[float], list[int], list[int]]:
    """Return where the distribution function of a sample steps, with counts before and after."""
    places, below, upto = [], [], []
    count = 0
    for place, ties in groupby(sorted(values)):
        places.append(place)
        below.append(count)
        count += sum(1 for _ in ties)
        upto.append(count)
    return places, below, upto


def _hull(corners: Sequence[_Corner], bend: int) -> list[_Corner]:
    """Return the corners of the greatest convex minorant (1) or least concave majorant (-1)."""
    hull: list[_Corner] = []
    for x, y in corners:
        while len(hull) > 1:
            (x1, y1), (x2, y2) = hull[-2], hull[-1]
            if bend * ((x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)) > 0:
                break
            hull.pop()
        hull.append((x, y))
    return hull


def _heights(hull: list[_Corner], places: Iterable[float]) -> list[float]:
    """Return the heights of a hull at ascending places, all of them within the hull."""
    heights: list[float] = []
    if len(hull) == 1:
        return [float(hull[0][1]) for _ in places]
    pieces = pairwise(hull)
    (x1, y1), (x2, y2) = next(pieces)
    for place in places:
        while place > x2:
            (x1, y1), (x2, y2) = next(pieces)
        heights.append(y2 if place == x2 else y1 + (y2 - y1) * ((place - x1) / (x2 - x1)))
    return heights


def _widest_gap(minorant: list[_Corner], majorant: list[_Corner]) -> tuple[float, float, float]:
    """Return the widest gap between the hulls, and the two ends of the resulting modal interval.

    The widest gap is at a corner of one of the hulls. The interval begins at the minorant's corner
    at or before the gap, and ends at the majorant's corner at or after it.
    """
    lower, upper = [x for x, _ in minorant], [x for x, _ in majorant]
    widest, left, right = -inf, lower[0], upper[-1]
    for (x, y), height in zip(minorant, _heights(majorant, lower), strict=True):
        if height - y > widest:
            widest, left, right = height - y, x, upper[bisect_left(upper, x)]
    for (x, y), height in zip(majorant, _heights(minorant, upper), strict=True):
        if y - height >= widest:
            at = bisect_left(lower, x)
            widest, left, right = y - height, lower[at if lower[at] == x else at - 1], x
    return widest, left, right
