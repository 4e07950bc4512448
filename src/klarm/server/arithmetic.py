"""The arithmetic of an alert: value, mean, standard deviation, z and thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from klarm.detectors import CRITICAL_FACTOR
from klarm.incidents import metric_of
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


def arithmetic_of(alarm: Event, alerts: Sequence[Alert]) -> Arithmetic | None:
    """Return the arithmetic of the alert behind an event; None if the alert is not found."""
    by_detector = [alert for alert in alerts if alert.detector == alarm.detector]
    until_then = [alert for alert in by_detector if alert.step <= alarm.step]
    as_severe = [alert for alert in until_then if alert.severity == alarm.alert_severity]
    found = (as_severe or until_then or by_detector or list(alerts))[-1:]
    if not found:
        return None
    return _of_alert(found[0], metric_of(alarm))


def arithmetic_of_others(alarm: Event, alerts: Sequence[Alert], known: str) -> list[Arithmetic]:
    """Return the arithmetic of the latest alert of each other detector of an incident."""
    latest = {alert.detector: alert for alert in alerts if alert.step <= alarm.step}
    metric = metric_of(alarm)
    return [_of_alert(alert, metric) for alert in latest.values() if alert.detector != known]


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
