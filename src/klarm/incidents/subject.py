"""What an incident is about: the name that every text and the page give it."""

from __future__ import annotations

from klarm.detectors import CATALOGUE
from klarm.journal import IncidentRecord
from klarm.types import Event, Incident


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
