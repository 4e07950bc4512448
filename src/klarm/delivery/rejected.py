"""Rejected: messages that a channel rejected, kept until they are retried."""

from __future__ import annotations

from collections.abc import Container, Sequence

from klarm.delivery.log import Delivered, Key
from klarm.types import Event

_FIRST_PAUSE_SECONDS, _GROWTH, _MAX_PAUSE_SECONDS = 60.0, 4.0, 3_600.0
# A message about a resolved incident is given up after this many rejections.
_MAX_TIMES_WHEN_OVER = 4
# Events kept per incident: the first, and the latest of the others.
_MAX_KEPT = 10


def pause_after(times: int) -> float:
    """Return the backoff in seconds after a message was rejected for the nth time.

    >>> pause_after(1), pause_after(2), pause_after(9)
    (60.0, 240.0, 3600.0)
    """
    return min(_FIRST_PAUSE_SECONDS * _GROWTH ** min(times - 1, 9), _MAX_PAUSE_SECONDS)


class Rejection:
    """The rejected events of one incident on a channel, since the last message it accepted."""

    def __init__(self) -> None:
        self.keys: set[Key] = set()
        self.times = 0
        self.last = float("-inf")  # the time of the last rejection

    def add(self, entry: Delivered) -> bool:
        """Add a rejection; return False if it is known, since this process reads its own lines."""
        if entry.time <= self.last and entry.key in self.keys:
            return False
        self.times += entry.time > self.last
        self.keys.add(entry.key)
        self.last = max(self.last, entry.time)
        return True

    def is_final(self, *, over: bool) -> bool:
        """Return whether it is no longer retried automatically. Open incidents always are."""
        return over and self.times >= _MAX_TIMES_WHEN_OVER

    def seconds_to_retry(self, now: float) -> float:
        """Return the seconds until the next retry. The clock may have been set back meanwhile."""
        ends = self.last + pause_after(self.times)
        return ends - now if self.last <= now < ends else 0.0


class Rejected:
    """The rejected events of one channel, by incident.

    A rejection may be temporary: a service that is being deployed answers 404 for a while. So
    nothing is given up while its incident is open, and the next event of the incident is sent
    together with what was rejected.
    """

    def __init__(self) -> None:
        self._events: dict[str, list[Event]] = {}
        self._due: dict[str, float] = {}

    def add(self, events: Sequence[Event], now: float, pause: float) -> None:
        """Keep events for a retry after a pause in seconds."""
        incident = events[0].id
        kept = list(events)
        self._events[incident] = kept[:1] + kept[1:][1 - _MAX_KEPT :]
        self._due[incident] = now + pause

    def take(self, now: float, with_news: Container[str]) -> list[list[Event]]:
        """Remove and return what to retry now: events that are due, or whose incident has news."""
        due = [i for i, due in self._due.items() if due <= now or i in with_news]
        for incident in due:
            del self._due[incident]
        return [self._events.pop(incident) for incident in due]

    def hurry(self) -> None:
        """Make everything due now: the channel works again."""
        self._due = dict.fromkeys(self._due, 0.0)

    def forget(self, incident: str) -> None:
        """Discard the events of an incident."""
        self._events.pop(incident, None)
        self._due.pop(incident, None)

    def seconds_to_wait(self, now: float) -> float | None:
        """Return the seconds until the next retry; None if nothing is kept."""
        return max(0.0, min(self._due.values()) - now) if self._due else None
