"""What the events of a run amount to: its incidents, as they were told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from klarm.types import ROLLED_BACK, Event


@dataclass(frozen=True)
class Episode:
    """One incident: how it opened, and what was said of it last."""

    opened: Event
    last: Event

    @property
    def is_open(self) -> bool:
        """Whether it is not over."""
        return self.last.event != "resolved"

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON holds it."""
        return {
            "incident": self.last.incident,
            "signal": self.last.signal,
            "severity": self.last.severity,
            "started": self.last.started,
            "opened": self.opened.step,
            "resolved": None if self.is_open else self.last.step,
            "detectors": self.last.detectors,
            "message": self.last.message,
            "recommendation": self.last.recommendation,
        }


def episodes(events: Iterable[Event]) -> list[Episode]:
    """Return the incidents in the order they opened, but for those that were rolled back."""
    found: dict[int, Episode] = {}
    for event in events:
        if event.event == "opened":
            found[event.incident] = Episode(event, event)
        elif event.reason == ROLLED_BACK:
            found.pop(event.incident, None)
        elif event.incident in found:
            found[event.incident] = Episode(found[event.incident].opened, event)
    return list(found.values())
