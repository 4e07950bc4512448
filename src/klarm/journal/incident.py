"""An incident as its events in a journal tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from msgspec.structs import replace

from klarm.types import ROLLED_BACK, SEVERITIES, Event, EventKind, Reason, Severity

RecordedState = Literal["open", "settled", "resolved", "ended"]

_STATES: dict[EventKind, RecordedState] = {
    "opened": "open",
    "escalated": "open",
    "reopened": "open",
    "settled": "settled",
    "resolved": "resolved",
    "ended": "ended",
}
# Ways to be resolved by which the metric need not be back.
_WITHOUT_RECOVERY = ("accepted", "closed", "superseded", "rolled_back")


@dataclass
class IncidentRecord:
    """One incident: how it opened, and its latest event. The fold keeps it up to date."""

    opened: Event  # or its first event that can be read
    last: Event
    severity: Severity  # the highest one of its events
    acknowledged_by: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, first: Event) -> IncidentRecord:
        """Return the incident that an event begins."""
        return cls(first, first, first.severity)

    def add(self, event: Event) -> None:
        """Take in its next event."""
        self.last = event
        self.severity = max(self.severity, event.severity, key=SEVERITIES.index)

    def ending(self, event: EventKind, step: int, reason: Reason, by: str = "") -> Event:
        """Return what ends it where nothing is trained: it was as last recorded.

        While a run trains, the tracker alone says what becomes of an incident.
        """
        return replace(
            self.last,
            event=event,
            step=step,
            reason=reason,
            recovered=event != "resolved" or reason == "accepted",
            by=by,
            rows=None,
            level=None,
            notified=None,
            moved="",
            pattern="",
            cause="",
            remedy="",
        )

    @property
    def id(self) -> str:
        """Unique for good."""
        return self.last.id

    @property
    def number(self) -> int:
        """Its number within the run, for people."""
        return self.last.incident

    @property
    def signal(self) -> str:
        """What it is about."""
        return self.last.signal

    @property
    def state(self) -> RecordedState:
        """Whether it goes on, and if not, how it stopped."""
        return _STATES[self.last.event]

    @property
    def reason(self) -> str:
        """Why it is in this state: a Reason, or a sentence in journals of format 1."""
        return "rolled_back" if self.last.reason == ROLLED_BACK else self.last.reason

    @property
    def is_open(self) -> bool:
        """Whether it is not resolved: it may be settled, or the run may have ended with it."""
        return self.state != "resolved"

    @property
    def was_rolled_back(self) -> bool:
        """Whether training went back to before it, so that it never was."""
        return self.state == "resolved" and self.reason == "rolled_back"

    @property
    def recovered(self) -> bool:
        """Whether it is resolved and its metric is back."""
        back = self.last.recovered and self.reason not in _WITHOUT_RECOVERY
        return self.state == "resolved" and back

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON holds it."""
        return {
            "id": self.id,
            "incident": self.number,
            "signal": self.signal,
            "severity": self.severity,
            "state": self.state,
            "reason": self.reason,
            "started": self.last.started,
            "opened": self.opened.step,
            "resolved": None if self.is_open else self.last.step,
            "detectors": self.last.detectors,
            "message": self.last.message,
            "recommendation": self.last.recommendation,
        }


def add_event(incidents: dict[str, IncidentRecord], event: Event) -> None:
    """Take an event of a journal into its incident, which it may begin. It must have an id."""
    known = incidents.get(event.id)
    if known is None or event.event == "opened":  # klarm 0.1 may give a number twice
        incidents[event.id] = IncidentRecord.of(event)
    else:
        known.add(event)
