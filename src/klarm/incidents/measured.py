"""An alert together with its detector and the value of its metric."""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec.structs import replace

from klarm.detectors import (
    LEVEL_BEFORE,
    ROWS_BEYOND,
    Detector,
    still_not_finite_message,
    when_still_not_finite,
)
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.recovery import Kind
from klarm.metrics import METRICS
from klarm.types import Alert


class Measured(NamedTuple):
    """All that the tracker uses of an alert, whichever detector raised it."""

    alert: Alert
    detector: Detector
    kind: Kind  # the metric, and which direction is worse
    # Of the metric, or its size if that is what counts; None if the alert does not contain it.
    value: float | None
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
        if number is not None and detector.recovery == "size":
            number = abs(number)
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

    def began(self, recent: RecentRows) -> int:
        """Return the step since which its metric has been beyond the limit, as the alert says."""
        rows = self.alert.metrics.get(ROWS_BEYOND)
        if not isinstance(rows, float) or not self.is_finite:
            return self.alert.step
        first = recent.step_of(self.kind[0], int(rows))
        return self.alert.step if first is None else first

    @property
    def is_finite(self) -> bool:
        """Whether all metrics in the alert are finite."""
        for name, value in self.alert.metrics.items():
            is_metric = name in METRICS or name in self.detector.watches
            if is_metric and isinstance(value, float) and not math.isfinite(value):
                return False
        return True

    @property
    def lasting_alert(self) -> Alert:
        """Its alert on a value that is not finite, as it reads once there have been several."""
        value = math.nan if self.value is None else self.value
        return replace(
            self.alert,
            message=still_not_finite_message(self.kind[0], value),
            recommendation=when_still_not_finite(self.alert.recommendation),
        )
