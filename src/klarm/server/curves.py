"""Curves to draw: metrics along an axis, and the baselines of detectors."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from klarm.config import SECTIONS
from klarm.detectors import CATALOGUE, CRITICAL_FACTOR, Detector, KLBudgetDetector, ZScoreDetector
from klarm.runs import Axis, Floats, Points
from klarm.server.accepted import accepted_levels
from klarm.server.problems import bad_request
from klarm.server.series import Sampled, sample
from klarm.server.served_run import ServedRun
from klarm.settings import ConfigError

BASELINE_DETECTORS = {kind.name: kind for kind in CATALOGUE if issubclass(kind, ZScoreDetector)}
# The trainer's KL and the one of the probe each have a budget of their own.
_BUDGETS = {kind.watches[0]: kind for kind in CATALOGUE if issubclass(kind, KLBudgetDetector)}


class Range(msgspec.Struct, frozen=True):
    """A part of an axis, and its width in pixels."""

    axis: Axis
    low: float | None
    high: float | None
    width: int

    def within(self, whole: tuple[float, float] | None) -> tuple[float, float]:
        """Return where the range begins and ends, given where the run does."""
        first, last = whole or (0.0, 0.0)
        low = first if self.low is None else self.low
        high = last if self.high is None else self.high
        if low > high and self.low is not None and self.high is not None:
            raise bad_request(f"from ({low:g}) is beyond to ({high:g})", "from")
        return low, max(low, high)


class Series(msgspec.Struct, rename={"low": "from", "high": "to"}):
    """Metrics of a run along an axis."""

    run: str
    cursor: int
    axis: Axis
    low: float
    high: float
    width: int
    series: dict[str, Sampled]


class FixedLimit(msgspec.Struct):
    """A constant limit."""

    detector: str
    severity: str
    value: float


class Baseline(msgspec.Struct):
    """The baseline of a detector for a metric."""

    run: str
    detector: str
    metric: str
    axis: Axis
    sigma_multiplier: float
    baseline_mode: str
    rolling_window: int
    enabled: bool
    x: list[float]
    mean: list[float]
    std: list[float]
    warning: list[float]
    critical: list[float]
    limits: list[FixedLimit]


def series(run: ServedRun, cursor: int, metrics: list[str], range_: Range) -> Series:
    """Return metrics of a run, with the minimum and maximum of every pixel."""
    columns = run.columns_with(metrics)
    low, high = range_.within(columns.span(range_.axis))
    sampled = {
        name: sample(columns.points(name, range_.axis), low, high, range_.width) for name in metrics
    }
    return Series(run.id, cursor, range_.axis, low, high, range_.width, sampled)


def baseline(run: ServedRun, name: str, range_: Range) -> Baseline:
    """Return the baseline of a z-score detector, with the settings of the run.

    After a person accepted a level, the detector has learnt the baseline again from that level.
    """
    detector = _detector(run, BASELINE_DETECTORS[name])
    metric = detector.watches[0]
    columns = run.columns_with([metric])
    points = columns.points(metric, range_.axis)
    finite = np.isfinite(points.y)
    points = Points(points.x[finite], points.y[finite])
    mean, spread = _learnt(run, detector, points, range_.axis)
    low, high = range_.within(columns.span(range_.axis))
    drawn = _last_of_each_pixel(points.x, low, high, range_.width, detector.quiet_values)
    drawn = drawn[np.isfinite(mean[drawn]) & np.isfinite(spread[drawn])]
    mean, spread = mean[drawn], spread[drawn]
    sigma = detector.sigma_multiplier
    return Baseline(
        run=run.id,
        detector=name,
        metric=metric,
        axis=range_.axis,
        sigma_multiplier=sigma,
        baseline_mode=detector.baseline_mode,
        rolling_window=detector.rolling_window,
        enabled=detector.enabled,
        x=points.x[drawn].tolist(),
        mean=mean.tolist(),
        std=spread.tolist(),
        warning=(mean + sigma * spread).tolist(),
        critical=(mean + CRITICAL_FACTOR * sigma * spread).tolist(),
        limits=_limits(run, metric),
    )


def _learnt(
    run: ServedRun, detector: ZScoreDetector, points: Points, axis: Axis
) -> tuple[Floats, Floats]:
    """Return the mean and the spread at each point; NaN while the detector only learns."""
    mean, spread = detector.baselines(points.y)
    for level in accepted_levels(run, detector.signal):
        places = [
            step if axis == "step" else run.time_of(step) for step in (level.since, level.step)
        ]
        since, at = np.searchsorted(points.x, [place or 0.0 for place in places]).tolist()
        again = detector.baselines(points.y[since:])
        for learnt, latest in zip((mean, spread), again, strict=True):
            learnt[at:] = latest[at - since :]
            learnt[at : since + detector.quiet_values] = np.nan
    return mean, spread


def _detector(run: ServedRun, kind: type[ZScoreDetector]) -> ZScoreDetector:
    try:
        return kind(**_settings_of(run, kind))  # type: ignore[arg-type]
    except ConfigError:  # written by another version
        return kind()


def _settings_of(run: ServedRun, kind: type[Detector]) -> dict[str, object]:
    recorded = run.settings.get(kind.name)
    if not isinstance(recorded, dict):
        return {}
    return {name: value for name, value in recorded.items() if name in SECTIONS[kind.name]}


def _last_of_each_pixel(
    x: Floats, low: float, high: float, width: int, silent: int
) -> NDArray[np.int64]:
    """Return the last point of each pixel, without the first `silent` points."""
    rows = np.flatnonzero((x >= low) & (x <= high))
    rows = rows[rows >= silent]
    if not len(rows):
        return rows
    pixel = np.floor((x[rows] - low) / ((high - low) or 1.0) * width)
    pixel = np.minimum(pixel, width - 1)
    return rows[np.flatnonzero(np.diff(pixel, append=np.inf))]


def _limits(run: ServedRun, metric: str) -> list[FixedLimit]:
    kind = _BUDGETS.get(metric)
    if kind is None:
        return []
    try:
        budget = kind(**_settings_of(run, kind))  # type: ignore[arg-type]
    except ConfigError:
        return []
    origin = run.fold.origins.get(metric)
    budget.bound(origin.key if origin else metric, origin.kind if origin else None)
    if not budget.enabled or budget.idle_because:
        return []
    return [
        FixedLimit(budget.name, "warning", budget.budget_nats),
        FixedLimit(budget.name, "critical", 2.0 * budget.budget_nats),
    ]
