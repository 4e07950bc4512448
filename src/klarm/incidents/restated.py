"""An alert in the numbers from before its incident, once its baseline contains the incident."""

from __future__ import annotations

import math

from msgspec.structs import replace

from klarm.detectors import Detector, KLRunawayDetector, ZScoreDetector
from klarm.incidents.recent_rows import RecentRows
from klarm.stats import median
from klarm.types import Alert, Incident

_LEVEL_VALUES = 5
# A trend that predicts this many times the level before the onset has learnt from the explosion.
_TREND_FACTOR = 2.0


def message_of(incident: Incident) -> str:
    """Return the message of the alert that an incident was last reported by.

    The limit of a critical alert is left out while the incident is a warning, where it would read
    as a mistake.
    """
    is_milder = incident.severity == "warning" and incident.worst.severity == "critical"
    return incident.worst.said(with_limit=not is_milder)


def restated(alert: Alert, detector: Detector, recent: RecentRows, onset: int) -> Alert:
    """Return the alert with its numbers against the level from before the onset.

    A rolling baseline learns the values of an explosion, so that the σ of a later alert is far too
    small. If too few values from before the onset are kept, the alert gives no σ. In the same way,
    the trend of kl_runaway comes to predict the explosion.
    """
    if isinstance(detector, KLRunawayDetector):
        return _without_trend(alert, detector, recent, onset)
    if not isinstance(detector, ZScoreDetector) or not detector.is_learning:
        return alert
    metric = detector.measures
    value = alert.metrics.get(metric)
    if not isinstance(value, float) or not math.isfinite(value):
        return alert
    if not recent.finite_values(metric, onset, alert.step):
        return alert  # its baseline is from before the onset
    before = recent.finite_values(metric, 0, onset)
    if len(before) < detector.min_values:
        return replace(alert, case="unknown_before")
    mean, spread = detector.baseline_of(before)
    facts = {"z_score": (value - mean) / spread, "baseline_mean": mean, "spread": spread}
    metrics = {**alert.metrics, **facts, "onset": float(onset)}
    return replace(alert, case="since_onset", metrics=metrics)


def _without_trend(
    alert: Alert, detector: KLRunawayDetector, recent: RecentRows, onset: int
) -> Alert:
    """Return the alert with the level before the onset, if its trend has left that level."""
    value, expected = alert.metrics.get(detector.measures), alert.metrics.get("expected")
    if not (isinstance(value, float) and isinstance(expected, float)):
        return alert
    if not alert.case.startswith("quick"):
        return alert
    before = recent.just_before(detector.measures, onset)
    if len(before) >= _LEVEL_VALUES:
        level = median(before)
        if expected <= _TREND_FACTOR * abs(level):
            return alert
        facts, case = {"before": level}, "since_onset"
    elif math.isinf(recent.rows_until(onset)):  # that was long ago
        facts, case = {}, "long_since_onset"
    else:
        return alert
    return replace(alert, case=case, metrics={**alert.metrics, **facts, "onset": float(onset)})
