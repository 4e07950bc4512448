"""Repeats: reminders of open incidents that nobody has acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from klarm.types import RINGING, SEVERITIES, Event, Severity

# After any other event, the incident is open and active.
_NOT_OPEN = ("settled", "resolved", "ended")
# The run is over: its crash is reported once, without reminders.
_CRASHED = "crashed"


class Repeats:
    """The open incidents of a run, and when one channel is reminded of them."""

    def __init__(self, after_seconds: float, min_severity: Severity) -> None:
        """Send reminders every `after_seconds`, from `min_severity` up; 0 means never."""
        self._after = after_seconds
        self._min_severity = SEVERITIES.index(min_severity)
        self._last: dict[str, Event] = {}  # the last event sent to people, by incident
        self._open: set[str] = set()
        self._not_before: dict[str, float] = {}

    def note(self, events: Iterable[Event]) -> None:
        """Update the open incidents with events, in order."""
        if not self._after:
            return
        for event in events:
            self._open.discard(event.id)
            if event.event == "resolved":
                self._last.pop(event.id, None)
            elif event.event in RINGING:
                self._last[event.id] = event
            if event.event not in _NOT_OPEN and event.reason != _CRASHED:
                self._open.add(event.id)

    def put_off(self, incident: str, now: float, seconds: float | None = None) -> None:
        """Postpone a reminder: it is acknowledged or silenced, or the service rejected it."""
        self._not_before[incident] = now + (self._after if seconds is None else seconds)

    def next(
        self,
        now: float,
        sent_at: Callable[[str], float | None],
    ) -> tuple[float, Event] | None:
        """Return the next reminder and in how many seconds it is due, if there is one."""
        found: list[tuple[float, Event]] = []
        for incident in self._open:
            event, sent = self._last.get(incident), sent_at(incident)
            if event is None or sent is None:
                continue
            if SEVERITIES.index(event.severity) >= self._min_severity:
                due = max(sent + self._after, self._not_before.get(incident, 0.0))
                # Limited, so that a clock that was set back delays no reminder for long.
                found.append((min(max(0.0, due - now), self._after), event))
        return min(found, key=lambda one: one[0], default=None)
