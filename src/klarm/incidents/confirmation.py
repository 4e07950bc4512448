"""Confirmation: which severity the alerts of a row amount to, and whether a detector is sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from klarm.incidents.measured import Measured
from klarm.incidents.streaks import Streaks
from klarm.types import SEVERITIES, Alert, Reason, Severity

_RANKS: Mapping[Severity, int] = {severity: rank for rank, severity in enumerate(SEVERITIES)}


class Believed(NamedTuple):
    """The highest severity that is confirmed or decisive, and by which alert."""

    severity: Severity
    reason: Reason
    by: Measured
    rows: int | None  # in alert


class Confirmation:
    """Counts rows in alert: of a signal, of its critical alerts, of each of its detectors.

    `confirm_steps` is how many each detector needs where it is not decisive. A detector's own rows
    are those at which its metric was logged: where metrics of one signal take turns, each of them
    is quiet in the rows of the others.
    """

    def __init__(self, confirm_steps: Mapping[str, int]) -> None:
        self._needed = confirm_steps
        self._streaks = Streaks()

    def add(self, alert: Alert, *, is_news: bool = True) -> None:
        """Count an alert; one that is no news keeps a streak up and does not lengthen it."""
        note = self._streaks.add if is_news else self._streaks.keep
        who = alert.detector
        note(("", "warning"), (who, "warning"))
        if alert.severity == "critical":
            note(("", "critical"), (who, "critical"))

    def end_row(self, looked: Set[str]) -> None:
        """End a row at which these detectors had something to look at."""
        self._streaks.end_row(looked)

    def believed(self, alerts: Sequence[Measured]) -> Believed | None:
        """Return what the alerts of a row amount to; None if that is to be seen."""
        for severity in reversed(SEVERITIES):
            grave = [said for said in alerts if not is_graver(severity, said.alert.severity)]
            if not grave:
                continue
            exact = [said for said in grave if said.alert.severity == severity] or grave
            decisive = next((said for said in exact if said.alert.decisive), None)
            if decisive is not None:
                reason: Reason = "decisive" if decisive.is_finite else "not_finite"
                return Believed(severity, reason, decisive, None)
            rows = self._streaks["", severity]
            if rows >= min(self._needed[said.alert.detector] for said in grave):
                return Believed(severity, "confirmed", exact[0], rows)
            for said in grave:
                rows = self._streaks[said.alert.detector, severity]
                if rows >= self._needed[said.alert.detector]:
                    return Believed(severity, "confirmed", said, rows)
        return None

    def is_sure(self, alert: Alert) -> bool:
        """Tell whether a detector has confirmed its own alert."""
        rows = self._streaks[alert.detector, "warning"]
        return alert.decisive or rows >= self._needed[alert.detector]


def is_graver(severity: Severity, than: Severity) -> bool:
    """Compare two severities.

    >>> is_graver("critical", "warning"), is_graver("warning", "warning")
    (True, False)
    """
    return _RANKS[severity] > _RANKS[than]
