"""Pending: the events that are still to be sent to one channel, and which incident is next."""

from __future__ import annotations

import contextlib
import math
import queue
from collections.abc import Sequence

from klarm.delivery.log import Key, key_of
from klarm.delivery.outbox import Outbox
from klarm.delivery.silences import HeldBack
from klarm.types import Event

# Events kept in memory per channel; the others are read from the journal later.
MAX_PENDING = 100
# How often to check whether an event that did not fit into memory has reached the disk.
_JOURNAL_POLL_SECONDS = 2.0


class Turns:
    """Events by incident. Untried incidents go first, then the one tried longest ago."""

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
        """Whether every incident has been tried at least once."""
        return all(incident in self._attempts for incident in self._events)

    def add(self, event: Event) -> None:
        """Add the latest event, unless it was already read from the journal."""
        events = self._events.setdefault(event.id, [])
        if key_of(event) not in map(key_of, events):
            events.append(event)
            self.size += 1

    def add_recorded(self, events: Sequence[Event]) -> None:
        """Add events of the journal before those that are there, which may be later."""
        present = {event.id: self._events.get(event.id, []) for event in events}
        for incident in present:
            self._events[incident] = []  # keeps its position in the queue
        for event in [*events, *(event for later in present.values() for event in later)]:
            self.add(event)
        self.size -= sum(map(len, present.values()))

    def next(self) -> tuple[list[Event], int]:
        """Return the events of the incident to try next, and the number of this attempt."""
        incident = next((i for i in self._events if i not in self._attempts), None)
        if incident is None:
            incident = next(iter(self._events))
        attempts = self._attempts[incident] = self._attempts.get(incident, 0) + 1
        return self._events[incident], attempts

    def put_back(self, incident: str) -> None:
        """Move an incident to the end of the queue."""
        if incident in self._events:
            self._events[incident] = self._events.pop(incident)

    def remove(self, incident: str) -> None:
        """Remove the events of an incident."""
        self.size -= len(self._events.pop(incident))
        self._attempts.pop(incident, None)


class Pending:
    """The events of one channel, from the training thread and from the journal.

    `put` is for the training thread: it takes no lock and never waits. When memory is full, the
    channel is behind: events that did not fit are read from the journal once the rest was sent.
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
        self._unread = behind  # the journal must be read before anything is sent
        self._behind = False
        self._missed: Event | None = None  # the last event that did not fit into memory
        self._met: Key | None = None  # the last missed event that was found in the journal
        self._start = 0  # no event before this offset of the journal is pending
        self._read_at = 0.0  # when to read the journal again, if behind

    def __bool__(self) -> bool:
        """Whether events are, or may be, pending."""
        waiting = self._inbox.qsize() > self._wakes
        return self._unread or self._behind or self._taking or bool(self.turns) or waiting

    @property
    def size(self) -> int:
        """How many events are in memory."""
        return self._inbox.qsize() + self.turns.size

    def put(self, event: Event) -> None:
        """Add an event, which the journal already has."""
        if self._behind or self.size >= MAX_PENDING:
            self._missed = event
            self._behind = True
        else:
            self._inbox.put(event)

    def wake(self) -> None:
        """End the current `wait`."""
        self._wakes += 1
        self._inbox.put(None)

    def wait(self, seconds: float | None) -> None:
        """Wait for an event, for up to `seconds`."""
        with contextlib.suppress(queue.Empty):
            self._take(self._inbox.get(timeout=seconds))

    def collect(self, now: float) -> None:
        """Take events from the inbox, after those that earlier processes left in the journal."""
        if self._unread:
            self._read_journal(now)
            self._unread = False
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._inbox.get_nowait())

    def catch_up(self, now: float) -> None:
        """Read events from the journal that did not fit into memory or that silences held back."""
        if not self.turns.all_tried:
            return  # untried incidents go first; those that keep failing do not block reading
        if self._held.release(now):
            self._behind = True
        elif not self._behind or now < self._read_at:
            return
        self._read_journal(now)

    def release_held(self) -> None:
        """Read the events that silences hold back again at the next turn: the run is ending."""
        if self._held.release(math.inf):
            self._behind, self._read_at = True, 0.0

    def seconds_to_wait(self, now: float) -> float | None:
        """Return the seconds until there may be something to send; None: when an event comes."""
        times = [self._read_at] * self._behind + [self._held.look_at] * bool(self._held)
        return max(0.0, min(times) - now) if times else None

    @property
    def is_lost(self) -> bool:
        """Whether events did not fit into memory, and there is no journal to read them from."""
        return self._missed is not None and self._outbox.folder is None

    def _take(self, event: Event | None) -> None:
        if event is None:
            self._wakes -= 1
            return
        self._taking = True  # the event is in neither queue now, but still pending
        self.turns.add(event)
        self._taking = False

    def _read_journal(self, now: float) -> None:
        self._outbox.refresh()
        missed = self._missed
        missed_key = None if missed is None else key_of(missed)

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
                self._behind = True  # another event did not fit meanwhile
        if self._behind:
            self._read_at = now + _JOURNAL_POLL_SECONDS
