"""An incident, reconstructed from its events in a journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec.structs import replace

from klarm.types import (
    METRIC_AFTER,
    SEVERITIES,
    Command,
    Event,
    EventKind,
    Reason,
    Severity,
)

RecordedState = Literal["open", "settled", "resolved", "ended"]

STATE_AFTER: dict[EventKind, RecordedState] = {
    "opened": "open",
    "escalated": "open",
    "reopened": "open",
    "settled": "settled",
    "resolved": "resolved",
    "ended": "ended",
}


@dataclass
class IncidentRecord:
    """One incident: its first and its latest event. The fold keeps it up to date."""

    opened: Event  # or the first readable event
    last: Event
    severity: Severity  # the highest severity of its events
    raised: int | None = None  # the step at which it became that severe, if it was less before
    acknowledged_by: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, first: Event) -> IncidentRecord:
        """Return the incident that begins with an event."""
        return cls(first, first, first.severity)

    def add(self, event: Event) -> None:
        """Add the next event of the incident."""
        self.last = event
        if SEVERITIES.index(event.severity) > SEVERITIES.index(self.severity):
            self.severity, self.raised = event.severity, event.step

    def ending(
        self, event: EventKind, step: int, reason: Reason, by: str = "", *, seq: int
    ) -> Event:
        """Return an event that ends the incident of a run that is not training.

        The event repeats the last recorded values. While a run is training, only the tracker ends
        incidents.
        """
        return replace(
            self.last,
            event=event,
            seq=seq,
            step=step,
            reason=reason,
            recovered=event != "resolved" or METRIC_AFTER[reason] in ("normal", "accepted"),
            by=by,
            rows=None,
            level=None,
            notified=None,
            also=(),
            pattern="",
            cause="",
            remedy="",
            action="",
        )

    @property
    def id(self) -> str:
        """The id, unique across runs."""
        return self.last.id

    @property
    def number(self) -> int:
        """The number within the run, shown to people."""
        return self.last.incident

    @property
    def signal(self) -> str:
        """The signal that the incident is about."""
        return self.last.signal

    @property
    def state(self) -> RecordedState:
        """Whether the incident is open, and if not, how it ended."""
        return STATE_AFTER[self.last.event]

    @property
    def reason(self) -> str:
        """Why the incident is in this state: a Reason."""
        return self.last.reason

    @property
    def is_open(self) -> bool:
        """Whether the incident is unresolved; it may be settled, or the run may have ended."""
        return self.state != "resolved"

    @property
    def was_rolled_back(self) -> bool:
        """Whether training was rolled back to a step before the incident."""
        return self.state == "resolved" and self.reason == "rolled_back"

    @property
    def recovered(self) -> bool:
        """Whether the incident is resolved and its metric is back to normal."""
        if self.state != "resolved":
            return False
        return self.last.recovered and METRIC_AFTER.get(self.reason) == "normal"

    def as_dict(self) -> dict[str, object]:
        """Return the incident as a dict for JSON output."""
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


def acknowledged_after(command: Command, before: Sequence[str]) -> list[str]:
    """Return who has acknowledged an incident after a command for it, each person once."""
    if command.command == "ack_off":
        return []
    if command.command == "ack" and command.by not in before:
        return [*before, command.by]
    return list(before)


def add_event(incidents: dict[str, IncidentRecord], event: Event) -> None:
    """Add an event to its incident; create the incident if it is new."""
    known = incidents.get(event.id)
    if known is None:
        incidents[event.id] = IncidentRecord.of(event)
    else:
        known.add(event)
