"""Curves to draw: metrics along an axis, and the baselines of detectors."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType
from numpy.typing import NDArray

from klarm.config import SECTIONS
from klarm.detectors import CATALOGUE, CRITICAL_FACTOR, Detector, KLBudgetDetector, ZScoreDetector
from klarm.runs import Axis, Floats, Points
from klarm.server.problems import bad_request
from klarm.server.requests import Coordinate, Names, Query
from klarm.server.series import Sampled, pixels_of, sample
from klarm.server.served_run import ServedRun
from klarm.settings import ConfigError

_BASELINE_DETECTORS = {kind.name: kind for kind in CATALOGUE if issubclass(kind, ZScoreDetector)}
# The trainer's KL and the one of the probe each have a budget of their own.
_BUDGETS = {kind.watches[0]: kind for kind in CATALOGUE if issubclass(kind, KLBudgetDetector)}
_Kind = TypeVar("_Kind", bound=Detector)


class Range(Query, frozen=True, rename={"low": "from", "high": "to"}):
    """A part of an axis, and its width in pixels."""

    axis: Axis = "step"
    low: Coordinate | UnsetType = UNSET
    high: Coordinate | UnsetType = UNSET
    width: Annotated[int, Meta(ge=1, le=10_000)] = 800

    def within(self, whole: tuple[float, float] | None) -> tuple[float, float]:
        """Return where the range begins and ends, given where the run does."""
        first, last = whole or (0.0, 0.0)
        low = first if self.low is UNSET else self.low
        high = last if self.high is UNSET else self.high
        if low > high and UNSET not in (self.low, self.high):
            raise bad_request(f"from ({low:g}) is beyond to ({high:g})", "from")
        return low, max(low, high)


class SeriesRange(Range, frozen=True):
    """Which metrics to draw."""

    metrics: Annotated[Names, Meta(max_length=50)] = ("kl",)


class BaselineRange(Range, frozen=True):
    """Of which detector to draw the baseline."""

    detector: str = "kl_explosion"


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


def series(run: ServedRun, asked: SeriesRange) -> Series:
    """Return metrics of a run, with the minimum and maximum of every pixel."""
    columns = run.columns_with(asked.metrics)
    low, high = asked.within(columns.span(asked.axis))
    sampled = {
        name: sample(columns.points(name, asked.axis), low, high, asked.width)
        for name in asked.metrics
    }
    return Series(run.id, run.cursor, asked.axis, low, high, asked.width, sampled)


def baseline(run: ServedRun, asked: BaselineRange) -> Baseline:
    """Return the baseline of a z-score detector, with the settings of the run.

    After a person accepted a level, the detector has learnt the baseline again from that level.
    """
    detector = _detector(run, asked.detector)
    metric = detector.watches[0]
    columns = run.columns_with([metric])
    points = columns.points(metric, asked.axis)
    finite = np.isfinite(points.y)
    points = Points(points.x[finite], points.y[finite])
    mean, spread = _learnt(run, detector, points, asked.axis)
    low, high = asked.within(columns.span(asked.axis))
    drawn = _last_of_each_pixel(points.x, low, high, asked.width, detector.quiet_values)
    drawn = drawn[np.isfinite(mean[drawn]) & np.isfinite(spread[drawn])]
    mean, spread = mean[drawn], spread[drawn]
    sigma = detector.sigma_multiplier
    return Baseline(
        run=run.id,
        detector=detector.name,
        metric=metric,
        axis=asked.axis,
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
    for steps in _accepted_levels(run, detector.signal):
        places = [step if axis == "step" else run.columns.time_of(step) for step in steps]
        since, at = np.searchsorted(points.x, [place or 0.0 for place in places]).tolist()
        again = detector.baselines(points.y[since:])
        for learnt, latest in zip((mean, spread), again, strict=True):
            learnt[at:] = latest[at - since :]
            learnt[at : since + detector.quiet_values] = np.nan
    return mean, spread


def _accepted_levels(run: ServedRun, signal: str) -> list[tuple[int, int]]:
    """Return since which step values were accepted as normal, and at which; as the tracker does."""
    found = []
    for given in run.state.commands:
        command, at = given.command, given.place
        incident = run.incidents.get(command.incident)
        if command.command == "accept" and incident is not None and incident.signal == signal:
            has_settled = any(
                told.event.id == incident.id and told.event.event == "settled"
                for told in run.state.events
                if told.place.begin < at.begin
            )
            since = incident.opened.step
            if has_settled:  # since its last alert
                alerts = run.alerts_between(None, at.step - 1, detectors=incident.last.detectors)
                since = (alerts.that_count() or [-1])[-1] + 1
            found.append((since, at.step))
    return found


def _detector(run: ServedRun, name: str) -> ZScoreDetector:
    kind = _BASELINE_DETECTORS.get(name)
    if kind is None:
        listed = " or ".join(_BASELINE_DETECTORS)
        raise bad_request(f"detector must be {listed}, got {name!r:.80}", "detector")
    return _as_set(run, kind) or kind()


def _as_set(run: ServedRun, kind: type[_Kind]) -> _Kind | None:
    """Return a detector with the settings of the run; None if they are of another version."""
    recorded, known = run.settings.get(kind.name), SECTIONS[kind.name]
    if not isinstance(recorded, dict):
        return kind()
    try:
        return kind(**{name: value for name, value in recorded.items() if name in known})
    except ConfigError:
        return None


def _last_of_each_pixel(
    x: Floats, low: float, high: float, width: int, silent: int
) -> NDArray[np.int64]:
    """Return the last point of each pixel, without the first `silent` points."""
    rows = np.flatnonzero((x >= low) & (x <= high))
    rows = rows[rows >= silent]
    return rows[np.flatnonzero(np.diff(pixels_of(x[rows], low, high, width), append=width))]


def _limits(run: ServedRun, metric: str) -> list[FixedLimit]:
    kind = _BUDGETS.get(metric)
    budget = _as_set(run, kind) if kind else None
    if budget is None:
        return []
    origin = run.fold.origins.get(metric)
    budget.bound(origin.key if origin else metric, origin.kind if origin else None)
    if not budget.enabled or budget.idle_because:
        return []
    return [
        FixedLimit(budget.name, "warning", budget.budget_nats),
        FixedLimit(budget.name, "critical", 2.0 * budget.budget_nats),
    ]
