"""Repeats: which open incidents people are reminded of, because nobody has acknowledged them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from klarm.types import RINGING, SEVERITIES, Event, Severity

# Anything else means that it is open and not quiet.
_NOT_OPEN = ("settled", "resolved", "ended")


class Repeats:
    """The open incidents of a run, for one channel that is reminded of them after so long."""

    def __init__(self, after_seconds: float, least: Severity) -> None:
        """Remind after so many seconds of what is at least so severe; never after 0."""
        self._after = after_seconds
        self._least = SEVERITIES.index(least)
        self._last: dict[str, Event] = {}  # what people were notified of last, by incident
        self._open: set[str] = set()
        self._not_before: dict[str, float] = {}

    def note(self, events: Iterable[Event]) -> None:
        """Take in what happened, in order."""
        if not self._after:
            return
        for event in events:
            self._open.discard(event.id)
            if event.event == "resolved":
                self._last.pop(event.id, None)
            elif event.event in RINGING:
                self._last[event.id] = event
            if event.event not in _NOT_OPEN:
                self._open.add(event.id)

    def put_off(self, incident: str, now: float, seconds: float | None = None) -> None:
        """Remind of an incident later: it is silenced, or the service did not take it."""
        self._not_before[incident] = now + (self._after if seconds is None else seconds)

    def next(
        self,
        now: float,
        sent_at: Callable[[str], float | None],
        acknowledged: Container[str],
    ) -> tuple[float, Event] | None:
        """Return the next reminder and in how many seconds it is due, if there is one."""
        found: list[tuple[float, Event]] = []
        for incident in self._open:
            event, sent = self._last.get(incident), sent_at(incident)
            if event is None or sent is None or incident in acknowledged:
                continue
            if SEVERITIES.index(event.severity) >= self._least:
                due = max(sent + self._after, self._not_before.get(incident, 0.0))
                # Whatever the clock does, nobody waits longer than this.
                found.append((min(max(0.0, due - now), self._after), event))
        return min(found, key=lambda one: one[0], default=None)
