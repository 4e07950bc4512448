"""An alert with the value it is about, and what its detector declares of itself."""

from __future__ import annotations

import math
from typing import NamedTuple

from klarm.detectors import Detector
from klarm.incidents.recovery import Kind
from klarm.metrics import METRICS
from klarm.types import Alert


class Measured(NamedTuple):
    """What the tracker goes by: a detector of any kind, known or not, comes down to this."""

    alert: Alert
    detector: Detector
    kind: Kind  # the metric, and which of its values are the worse
    value: float | None  # of the metric; None if the alert does not say it
    names: frozenset[str] = frozenset()  # of the metrics, if its detector watches all of them

    @classmethod
    def of(cls, alert: Alert, detector: Detector) -> Measured:
        """Return an alert of a detector, measured."""
        # One that watches several metrics alike names the one it speaks of.
        metric = detector.measures
        if metric not in alert.metrics:
            metric = next((name for name in detector.reads if name in alert.metrics), metric)
        value = alert.metrics.get(metric)
        number = None if value is None or isinstance(value, str) else float(value)
        names: frozenset[str] = frozenset()
        if detector.watches_all:
            listed = [said for said in alert.metrics.values() if isinstance(said, str)]
            names = frozenset(name for said in listed for name in said.split(", ") if name)
        return cls(alert, detector, (metric, alert.worse), number, names)

    @property
    def is_finite(self) -> bool:
        """Whether all the metrics it names are finite."""
        for name, value in self.alert.metrics.items():
            is_metric = name in METRICS or name in self.detector.watches
            if is_metric and isinstance(value, float) and not math.isfinite(value):
                return False
        return True
