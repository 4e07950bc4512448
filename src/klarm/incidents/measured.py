"""An alert together with its detector and the value of its metric."""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec.structs import replace

from klarm.detectors import LEVEL_BEFORE, ROWS_BEYOND, Detector
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.recovery import Kind
from klarm.types import Alert

# The case of such an alert.
LASTING = "lasting"


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
        # The direction of an incident, even if it is about a NaN or a lost metric.
        worse = alert.worse if alert.worse in ("higher", "lower") else detector.worse
        return cls(alert, detector, (metric, worse), number, frozenset(alert.names))

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
        """Whether the alert is about a finite value."""
        return self.alert.worse != "not_finite"

    @property
    def lasting_alert(self) -> Alert:
        """Its alert on a value that is not finite, as it reads once there have been several."""
        return replace(self.alert, case=LASTING)
