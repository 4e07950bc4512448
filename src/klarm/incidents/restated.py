"""An alert in the numbers from before its incident, once its baseline contains the incident."""

from __future__ import annotations

from msgspec.structs import replace

from klarm.detectors import Detector, ZScoreDetector
from klarm.incidents.numbers import number
from klarm.incidents.recent_rows import RecentRows
from klarm.types import Alert


def restated(alert: Alert, detector: Detector, recent: RecentRows, onset: int) -> Alert:
    """Return the alert with its σ against the baseline from before the onset.

    A rolling baseline learns the values of an explosion, so that the σ of a later alert is far too
    small. If too few values from before the onset are kept, the alert gives no σ.
    """
    if not isinstance(detector, ZScoreDetector) or not detector.is_learning:
        return alert
    metric = detector.measures
    value = alert.metrics.get(metric)
    if not isinstance(value, float) or "z_score" not in alert.metrics:  # it is not finite
        return alert
    if not recent.finite_values(metric, onset, alert.step):
        return alert  # its baseline is from before the onset
    before = recent.finite_values(metric, 0, onset)
    what = f"{detector.label} {value:.4g}"
    if len(before) < detector.min_values:
        return replace(alert, message=f"{what} is far above its recent values.")
    mean, spread = detector.baseline_of(before)
    sigmas = number((value - mean) / spread)
    level = f"{mean:.4g} ± {spread:.2g}"
    message = f"{what} is {sigmas}σ above its level before step {onset} ({level})."
    return replace(alert, message=message)
