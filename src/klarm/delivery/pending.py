"""Pending: what one channel still has to be sent, and which incident is next."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Sequence

from klarm.delivery.log import Key, key_of
from klarm.delivery.outbox import Outbox
from klarm.delivery.silences import HeldBack
from klarm.types import Event

# Events kept in memory for a channel; the journal has the others.
MAX_PENDING = 100
# How often to look whether an event that did not fit into memory is on disk.
_ON_DISK_SECONDS = 2.0


class Turns:
    """Events by incident. What was not tried yet goes first, then what was tried longest ago."""

    def __init__(self) -> None:
        self.size = 0  # events
        self._events: dict[str, list[Event]] = {}
        self._attempts: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._events)

    def __contains__(self, incident: object) -> bool:
        return incident in self._events

    @property
    def all_tried(self) -> bool:
        """Whether it holds nothing that was not tried before."""
        return all(incident in self._attempts for incident in self._events)

    def add(self, event: Event) -> None:
        """Add the latest event, unless it is there: it may have come from the journal."""
        events = self._events.setdefault(event.id, [])
        if key_of(event) not in map(key_of, events):
            events.append(event)
            self.size += 1

    def add_recorded(self, events: Sequence[Event]) -> None:
        """Add events of the journal; what is there may be later than some of them."""
        there = {event.id: self._events.get(event.id, []) for event in events}
        for incident in there:
            self._events[incident] = []  # keeps its turn
        for event in [*events, *(event for later in there.values() for event in later)]:
            self.add(event)
        self.size -= sum(map(len, there.values()))

    def next(self) -> tuple[list[Event], int]:
        """Return the events of the incident to try next, and how many attempts that makes."""
        incident = next((i for i in self._events if i not in self._attempts), None)
        if incident is None:
            incident = next(iter(self._events))
        attempts = self._attempts[incident] = self._attempts.get(incident, 0) + 1
        return self._events[incident], attempts

    def put_back(self, incident: str) -> None:
        """Let the other incidents go first."""
        if incident in self._events:
            self._events[incident] = self._events.pop(incident)

    def remove(self, incident: str) -> None:
        """Be done with the events of an incident."""
        self.size -= len(self._events.pop(incident))
        self._attempts.pop(incident, None)


class Pending:
    """The events of one channel, from the training thread and from the journal.

    `put` is for the training thread: it takes no lock and never waits. When there is no room, the
    channel is behind: what it missed is read from the journal once the rest has been sent.
    """

    def __init__(
        self, channel: str, outbox: Outbox, held: HeldBack, *, behind: bool = False
    ) -> None:
        self.turns = Turns()
        self._channel = channel
        self._outbox = outbox
        self._held = held
        self._inbox: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._wakes = 0
        self._taking = False
        self._unread = behind  # nothing of the journal was read yet
        self._behind = False
        self._missed: Event | None = None  # the last that did not fit,
        self._met: Key | None = None  # and the last such that was found in the journal
        self._start = 0  # nothing in the journal before this is pending
        self._look_at = 0.0  # into the journal, when behind

    def __bool__(self) -> bool:
        """Whether there is, or may be, something left to send."""
        waiting = self._inbox.qsize() > self._wakes
        return self._unread or self._behind or self._taking or bool(self.turns) or waiting

    @property
    def size(self) -> int:
        """How many events are in memory."""
        return self._inbox.qsize() + self.turns.size

    def put(self, event: Event) -> None:
        """Hand over an event that the journal has."""
        if self._behind or self.size >= MAX_PENDING:
            self._missed = event
            self._behind = True
        else:
            self._inbox.put(event)

    def wake(self) -> None:
        """End the wait under way."""
        self._wakes += 1
        self._inbox.put(None)

    def wait(self, seconds: float | None) -> None:
        """Wait for an event, at most so long."""
        with contextlib.suppress(queue.Empty):
            self._take(self._inbox.get(timeout=seconds))

    def collect(self, now: float) -> None:
        """Take in what came: what earlier processes left behind goes before it."""
        if self._unread:
            self._read_journal(now)
            self._unread = False
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._inbox.get_nowait())

    def catch_up(self, now: float) -> None:
        """Take from the journal what did not fit into memory, and what silences held back."""
        if not self.turns.all_tried:
            return  # what keeps failing must not keep others waiting; what is new goes first
        if self._held.release(now):
            self._behind = True
        elif not self._behind or now < self._look_at:
            return
        self._read_journal(now)

    def seconds_to_wait(self, now: float) -> float | None:
        """Return how long there is nothing to send; None until the next event."""
        times = [self._look_at] * self._behind + [self._held.look_at] * bool(self._held)
        return max(0.0, min(times) - now) if times else None

    @property
    def is_lost(self) -> bool:
        """Whether events found no room, and there is no journal to read them from."""
        return self._missed is not None and self._outbox.folder is None

    def _take(self, event: Event | None) -> None:
        if event is None:
            self._wakes -= 1
            return
        self._taking = True  # it is in neither place, and pending all the same
        self.turns.add(self._outbox.identified(event))
        self._taking = False

    def _read_journal(self, now: float) -> None:
        self._outbox.refresh()
        missed = self._missed
        missed_key = None if missed is None else key_of(self._outbox.identified(missed))

        def wanted(event: Event) -> bool:
            if key_of(event) == missed_key:
                self._met = missed_key
            return event not in self._held

        batch = self._outbox.pending(self._channel, self._start, MAX_PENDING, wanted)
        self._start = batch.start
        self.turns.add_recorded(batch.events)
        if not batch.all_read:
            self._behind = True
            return
        if self._met == missed_key or self._outbox.folder is None:
            self._behind = False  # from here on, events come through the inbox again
            if self._missed is not missed:
                self._behind = True  # one more was missed meanwhile
        if self._behind:
            self._look_at = now + _ON_DISK_SECONDS
