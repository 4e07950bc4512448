"""An alert together with its detector and the value of its metric."""

from __future__ import annotations

import math
from typing import NamedTuple

from klarm.detectors import LEVEL_BEFORE, Detector
from klarm.incidents.recovery import Kind
from klarm.metrics import METRICS
from klarm.types import Alert


class Measured(NamedTuple):
    """All that the tracker uses of an alert, whichever detector raised it."""

    alert: Alert
    detector: Detector
    kind: Kind  # the metric, and which direction is worse
    value: float | None  # of the metric; None if the alert does not contain it
    names: frozenset[str] = frozenset()  # affected metrics, if the detector watches all of them

    @classmethod
    def of(cls, alert: Alert, detector: Detector) -> Measured:
        """Combine an alert with its detector."""
        # A detector that watches several metrics alike names the one that the alert is about.
        metric = detector.measures
        if metric not in alert.metrics:
            metric = next((name for name in detector.reads if name in alert.metrics), metric)
        value = alert.metrics.get(metric)
        number = None if value is None or isinstance(value, str) else float(value)
        names: frozenset[str] = frozenset()
        if detector.watches_all:
            lists = [text for text in alert.metrics.values() if isinstance(text, str)]
            names = frozenset(name for text in lists for name in text.split(", ") if name)
        return cls(alert, detector, (metric, alert.worse), number, names)

    @property
    def came_from(self) -> float:
        """The level that the detector compared with; NaN if the alert does not name it."""
        level = self.alert.metrics.get(LEVEL_BEFORE)
        if not isinstance(level, float) or not math.isfinite(level) or not self.is_finite:
            return math.nan
        return level

    @property
    def is_finite(self) -> bool:
        """Whether all metrics in the alert are finite."""
        for name, value in self.alert.metrics.items():
            is_metric = name in METRICS or name in self.detector.watches
            if is_metric and isinstance(value, float) and not math.isfinite(value):
                return False
        return True
