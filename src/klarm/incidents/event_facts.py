"""What follows from an event: its subject, whether it is an alarm, whether it is over."""

from __future__ import annotations

import math

from klarm.detectors import CATALOGUE
from klarm.incidents.recovery import changes_by_factors
from klarm.journal import IncidentRecord
from klarm.types import Event, Incident

# A metric is back at its earlier level if it differs from it by at most this share.
_NEAR, _NEAR_BY_RATIO = 0.25, 0.5
# If the first alert came this many rows after the metric left its normal range, messages say so.
_MIN_ROWS_LATE = 6


def subject_of(incident: Event | Incident | IncidentRecord) -> str:
    """Return what an incident is named by, the same from its opening to its end.

    That is the metric of its first alert, or "missing kl" and the like if metrics are lost.

    >>> subject_of(Event("opened", 1, "gradient", "warning", 300, 300, ["learning_rate_jump"],
    ...                  1e-3, "decisive", "", "", "k1", metric="learning_rate"))
    'learning_rate'
    """
    if isinstance(incident, Incident):
        return incident.subject or incident.signal
    event = incident.last if isinstance(incident, IncidentRecord) else incident
    return event.subject or metric_of(event) or event.signal  # earlier versions did not record it


def metric_of(event: Event) -> str:
    """Return the metric of an incident's peak; empty if its detector watches all metrics."""
    return event.metric or measured_by(event.detectors[0] if event.detectors else "")


def measured_by(detector: str) -> str:
    """Return the first metric of one of klarm's detectors; empty if it watches all metrics."""
    kind = next((kind for kind in CATALOGUE if kind.name == detector), None)
    return "" if kind is None or kind.watches_all else kind.watches[0]


def is_undone(event: Event) -> bool:
    """Return whether an incident was rolled back, because training went back to before it."""
    return event.event == "resolved" and event.reason == "rolled_back"


def is_back(event: Event) -> bool:
    """Return whether a metric is near its earlier level; true if a level is unknown.

    One that was not finite is back when it is finite.
    """
    now, before = event.level, event.before
    if now is None or before is None or not peak_is_finite(event):
        return True
    share = _NEAR_BY_RATIO if changes_by_factors((metric_of(event), event.worse)) else _NEAR
    return abs(now - before) <= share * abs(before)


def peak_is_finite(event: Event) -> bool:
    """Return whether the worst value of an incident is a finite number."""
    # In a journal, a peak that is not finite is text.
    return not isinstance(event.peak, str) and math.isfinite(event.peak)


def is_alarm(event: Event) -> bool:
    """Return whether an event reports a problem, rather than the further course of one."""
    return event.event in ("opened", "escalated")


def is_crash(event: Event) -> bool:
    """Return whether an event opens the incident of a crash."""
    return event.event == "opened" and event.reason == "crashed"


def early_onset(event: Event) -> int | None:
    """Return when the metric left its normal range, if that was well before the first alert."""
    if event.onset is None:
        return None
    late = event.started - event.onset if event.onset_rows is None else event.onset_rows
    return event.onset if late >= _MIN_ROWS_LATE else None
