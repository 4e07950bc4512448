"""Confirmation: which severity the alerts of a row confirm, and when a detector is sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from klarm.incidents.measured import Measured
from klarm.incidents.streaks import Streaks
from klarm.types import SEVERITIES, Alert, Reason, Severity

_RANKS: Mapping[Severity, int] = {severity: rank for rank, severity in enumerate(SEVERITIES)}


class Confirmed(NamedTuple):
    """The highest severity that is confirmed or decisive, and the alert that confirmed it."""

    severity: Severity
    reason: Reason
    by: Measured
    rows: int | None  # the number of rows in alert; None for a decisive alert


class Confirmation:
    """Counts consecutive rows in alert: of a signal, of its critical alerts, of each detector.

    `confirm_steps` maps each detector to the rows it needs when its alerts are not decisive. Only
    rows in which its metric was logged count for a detector, because the metrics of one signal may
    be logged in turns.
    """

    def __init__(self, confirm_steps: Mapping[str, int]) -> None:
        self._needed = confirm_steps
        self._streaks = Streaks()

    def add(self, alert: Alert, *, is_news: bool = True) -> None:
        """Count an alert. One that is not news keeps a streak alive, but does not extend it."""
        count = self._streaks.add if is_news else self._streaks.keep
        name = alert.detector
        count(("", "warning"), (name, "warning"))
        if alert.severity == "critical":
            count(("", "critical"), (name, "critical"))

    def end_row(self, looked: Set[str]) -> None:
        """End a row in which these detectors had a value to judge."""
        self._streaks.end_row(looked)

    def confirmed(self, alerts: Sequence[Measured]) -> Confirmed | None:
        """Return what the alerts of a row confirm; None if they need more rows."""
        for severity in reversed(SEVERITIES):
            relevant = [
                measured
                for measured in alerts
                if not is_more_severe(severity, measured.alert.severity)
            ]
            if not relevant:
                continue
            exact = [
                measured for measured in relevant if measured.alert.severity == severity
            ] or relevant
            decisive = next((measured for measured in exact if measured.alert.decisive), None)
            if decisive is not None:
                reason: Reason = "decisive" if decisive.is_finite else "not_finite"
                return Confirmed(severity, reason, decisive, None)
            rows = self._streaks["", severity]
            if rows >= min(self._needed[measured.alert.detector] for measured in relevant):
                return Confirmed(severity, "confirmed", exact[0], rows)
            for measured in relevant:
                rows = self._streaks[measured.alert.detector, severity]
                if rows >= self._needed[measured.alert.detector]:
                    return Confirmed(severity, "confirmed", measured, rows)
        return None

    def is_sure(self, alert: Alert) -> bool:
        """Return whether a detector has confirmed its own alert."""
        rows = self._streaks[alert.detector, "warning"]
        return alert.decisive or rows >= self._needed[alert.detector]


def is_more_severe(severity: Severity, than: Severity) -> bool:
    """Return whether a severity is higher than another.

    >>> is_more_severe("critical", "warning"), is_more_severe("warning", "warning")
    (True, False)
    """
    return _RANKS[severity] > _RANKS[than]
