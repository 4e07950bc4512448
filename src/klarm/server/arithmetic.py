"""The arithmetic of an alert: value, mean, standard deviation, z and thresholds."""

from __future__ import annotations

import math

import msgspec

from klarm.detectors import CRITICAL_FACTOR
from klarm.incidents import metric_of
from klarm.journal import IncidentRecord
from klarm.runs import RunView
from klarm.server.summary import Number
from klarm.types import Alert, Event
from klarm.wording import number


class Arithmetic(msgspec.Struct, kw_only=True):
    """The numbers behind an alert. Most are None for detectors without a z-score."""

    detector: str
    severity: str
    step: int
    metric: str
    value: Number | None
    mean: float | None = None
    std: float | None = None
    z: Number | None = None
    threshold: float | None = None
    warning_at: float | None = None
    critical_at: float | None = None
    formula: str | None = None
    numbers: dict[str, Number]


def arithmetic_of(run: RunView, incident: IncidentRecord, alarm: Event) -> Arithmetic | None:
    """Return the arithmetic of the alert behind an event; None if the alert is not found."""
    own, began = [alarm.detector], incident.last.started
    as_severe = run.alerts_between(
        began, alarm.step, detectors=own, severity=alarm.alert_severity or ""
    )
    until_then = run.alerts_between(began, alarm.step, detectors=own)
    any_other = run.alerts_between(began, None, detectors=incident.last.detectors)
    for found in (as_severe, until_then, any_other):
        for _, _, alert in found.latest(1):
            return _of_alert(alert, metric_of(alarm))
    return None


def arithmetic_of_others(
    run: RunView, incident: IncidentRecord, alarm: Event, known: str
) -> list[Arithmetic]:
    """Return the arithmetic of the latest alert of each other detector of an incident."""
    return [
        _of_alert(alert, metric_of(alarm))
        for detector in incident.last.detectors
        if detector != known
        for _, _, alert in run.alerts_between(
            incident.last.started, alarm.step, detectors=[detector]
        ).latest(1)
    ]


def _of_alert(alert: Alert, metric: str) -> Arithmetic:
    if metric not in alert.metrics:
        metric = next(iter(alert.metrics), "")
    plain = Arithmetic(
        detector=alert.detector,
        severity=alert.severity,
        step=alert.step,
        metric=metric,
        value=alert.metrics.get(metric),
        numbers=alert.metrics,
    )
    return _with_z(plain)


def _with_z(found: Arithmetic) -> Arithmetic:
    """Add the numbers of a z-score, if there is one."""
    value, z = found.value, found.numbers.get("z_score")
    mean, threshold = found.numbers.get("baseline_mean"), found.numbers.get("threshold")
    if not (
        isinstance(value, float)
        and isinstance(z, float)
        and isinstance(mean, float)
        and isinstance(threshold, float)
    ):
        return found
    found.mean, found.z, found.threshold = mean, z, threshold
    # The divisor of the z-score. Unlike `baseline_std`, it is at least a fraction of the mean.
    std = (value - mean) / z if z else math.nan
    if math.isfinite(std) and std > 0.0:
        sigma = threshold / (CRITICAL_FACTOR if found.severity == "critical" else 1.0)
        found.std = std
        found.warning_at = mean + sigma * std
        found.critical_at = mean + CRITICAL_FACTOR * sigma * std
        parts = f"({number(value, 4)} − {number(mean, 4)}) / {number(std, 4)}"
        found.formula = f"{parts} = {number(z)} > {number(threshold)}"
    return found
