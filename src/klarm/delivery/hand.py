"""The hand of a lane: the incidents it is about to tell of, and whose turn it is."""

from __future__ import annotations

from klarm.delivery.outbox import key_of
from klarm.types import Event

# The end of an incident that has failed so often holds up its signal's next one no longer.
_MOST_HELD_UP_FOR = 10


class Hand:
    """Events by incident. What was not tried yet comes first, then what was tried longest ago."""

    def __init__(self) -> None:
        self.size = 0  # events
        self._events: dict[int, list[Event]] = {}
        self._attempts: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._events)

    def __contains__(self, incident: int) -> bool:
        return incident in self._events

    def __getitem__(self, incident: int) -> list[Event]:
        return self._events[incident]

    @property
    def all_tried(self) -> bool:
        """Whether nothing is in it that was not tried before."""
        return all(incident in self._attempts for incident in self._events)

    def take(self, event: Event) -> None:
        """Take in an event, unless it is there: it may come from the journal too."""
        events = self._events.setdefault(event.incident, [])
        if key_of(event) not in map(key_of, events):
            events.append(event)
            self.size += 1

    def first_in_line(self) -> int:
        """Return the incident to tell next: not before the end of an earlier one of its signal.

        A pager may know the signal only, and take the end of the one for that of the other.
        """
        ending = {
            (events[0].signal, incident)
            for incident, events in self._events.items()
            if events[-1].event == "resolved"
            and self._attempts.get(incident, 0) < _MOST_HELD_UP_FOR
        }
        by_turn = sorted(self._events, key=lambda incident: incident in self._attempts)
        for incident in by_turn:
            own = self._events[incident][0].signal
            if not any(signal == own and end < incident for signal, end in ending):
                return incident
        return by_turn[0]

    def try_(self, incident: int) -> int:
        """Count an attempt to tell of an incident; return how many there were."""
        attempts = self._attempts[incident] = self._attempts.get(incident, 0) + 1
        return attempts

    def put_back(self, incident: int) -> None:
        """Let the others go first."""
        self._events[incident] = self._events.pop(incident)

    def drop(self, incident: int) -> None:
        """Be done with an incident, for now."""
        self.size -= len(self._events.pop(incident))
        self._attempts.pop(incident, None)

    def ends_before(self, told: Event) -> list[int]:
        """Return the earlier incidents on an event's signal whose ends are still in it."""
        return [
            incident
            for incident, events in self._events.items()
            if incident < told.incident
            and events[0].signal == told.signal
            and events[-1].event == "resolved"
        ]
