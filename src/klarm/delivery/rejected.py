"""Rejected: what a channel does not take of an open incident, until it is tried again."""

from __future__ import annotations

from collections.abc import Container, Sequence

from klarm.delivery.log import Delivered, Key
from klarm.types import Event

_FIRST_PAUSE_SECONDS, _GROWTH, _MAX_PAUSE_SECONDS = 60.0, 4.0, 3_600.0
# Of an incident that is over, a message is given up after so many rejections.
_MAX_TIMES_WHEN_OVER = 4
# Events kept of an incident: the first, and the latest of the others.
_MAX_KEPT = 10


def pause_after(times: int) -> float:
    """Return how long a message rests that was rejected so many times.

    >>> pause_after(1), pause_after(2), pause_after(9)
    (60.0, 240.0, 3600.0)
    """
    return min(_FIRST_PAUSE_SECONDS * _GROWTH ** min(times - 1, 9), _MAX_PAUSE_SECONDS)


class Rejection:
    """What a channel rejected of one incident, with nothing sent since."""

    def __init__(self) -> None:
        self.keys: set[Key] = set()
        self.times = 0
        self.last = float("-inf")  # when it was rejected last

    def add(self, entry: Delivered) -> bool:
        """Note a rejection; return whether it is new: what this process wrote is read again."""
        if entry.time <= self.last and entry.key in self.keys:
            return False
        self.times += entry.time > self.last
        self.keys.add(entry.key)
        self.last = max(self.last, entry.time)
        return True

    def is_final(self, *, over: bool) -> bool:
        """Return whether it is tried no more by itself: not while the incident is open."""
        return over and self.times >= _MAX_TIMES_WHEN_OVER

    def rests_for(self, now: float) -> float:
        """Return how long it is not to be tried again; the clock may have gone back."""
        ends = self.last + pause_after(self.times)
        return ends - now if self.last <= now < ends else 0.0


class Rejected:
    """The rejected events of one channel, by incident.

    A rejection may pass: a service that is being deployed answers 404 for a while. So nothing is
    given up while its incident is open, and news of it takes along what was rejected.
    """

    def __init__(self) -> None:
        self._events: dict[str, list[Event]] = {}
        self._due: dict[str, float] = {}

    def add(self, events: Sequence[Event], now: float, pause: float) -> None:
        """Keep events for later."""
        incident = events[0].id
        kept = list(events)
        self._events[incident] = kept[:1] + kept[1:][1 - _MAX_KEPT :]
        self._due[incident] = now + pause

    def take(self, now: float, with_news: Container[str]) -> list[list[Event]]:
        """Return what is to be tried now: what is due, and what there is news of."""
        due = [i for i, due in self._due.items() if due <= now or i in with_news]
        for incident in due:
            del self._due[incident]
        return [self._events.pop(incident) for incident in due]

    def hurry(self) -> None:
        """Have everything tried now: the channel works again."""
        self._due = dict.fromkeys(self._due, 0.0)

    def forget(self, incident: str) -> None:
        """Be done with an incident."""
        self._events.pop(incident, None)
        self._due.pop(incident, None)

    def seconds_to_wait(self, now: float) -> float | None:
        """Return when to look again; None if nothing is kept."""
        return max(0.0, min(self._due.values()) - now) if self._due else None
