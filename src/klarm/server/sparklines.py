"""The small curves of the overview: the lowest and the highest value of each of a few pixels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from klarm.runs import Curve, Floats, Points
from klarm.server.series import lowest_and_highest, pixels_of

_PIXELS = 24
_Curve = list[float | None]


def sparklines(
    curves: Mapping[str, Curve], first: int | None, last: int | None
) -> dict[str, _Curve]:
    """Return the curves of the overview; None marks a part without any finite value."""
    if first is None or last is None:
        return {}
    span = float(first), float(last)
    return {name: _drawn(curve, span) for name, curve in curves.items() if len(curve.steps)}


def _drawn(curve: Curve, span: tuple[float, float]) -> _Curve:
    x, y = curve.steps.astype(np.float64), curve.values
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    finite = np.isfinite(y)
    points = Points(x[finite], y[finite])
    with_values = set(pixels_of(points.x, *span, _PIXELS).tolist())
    if len(points.x) > 2 * _PIXELS:
        points = lowest_and_highest(points, *span, _PIXELS)
    drawn: list[tuple[float, float | None]] = list(
        zip(points.x.tolist(), _rounded(points.y), strict=True)
    )
    broken = x[~finite]
    gaps = dict(zip(pixels_of(broken, *span, _PIXELS).tolist(), broken.tolist(), strict=True))
    drawn += [(at, None) for pixel, at in gaps.items() if pixel not in with_values]
    return [value for _, value in sorted(drawn, key=lambda point: point[0])]


def _rounded(values: Floats) -> list[float]:
    """Return numbers with four digits; formatting them one by one would take twice as long."""
    return list(map(float, ("%.4g " * len(values) % tuple(values.tolist())).split()))
