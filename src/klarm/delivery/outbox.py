"""The outbox: the events of a run that somebody has yet to be told of.

An event is in the journal before anything is sent, and in the deliveries after it was. So what is
owed is the one less the other, for this process and for any later one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from klarm.delivery import log as deliveries
from klarm.delivery.log import (
    Acknowledged,
    Delivered,
    Entry,
    Outcome,
    Silenced,
    Unsilenced,
)
from klarm.journal import FILE_NAME, Started, locks, read_journal, recorded_events, steps_back
from klarm.types import Event, EventKind

LOCK_NAME = "delivery.lock"

# Which event this is, whichever process reads it: (incident, kind, step). An incident that is
# rolled back ends and comes again with a new number. Only an escalation may come twice at one
# step, when training goes back in between: the same news, told once.
Key = tuple[int, EventKind, int]
# What is owed once more of what was refused: nothing, what is of an open incident, or everything.
Again = Literal["none", "open", "all"]

_ORDER: dict[EventKind, int] = {"opened": 0, "escalated": 1, "resolved": 2}


def key_of(event: Event) -> Key:
    """Return what identifies an event in its run."""
    return event.incident, event.event, event.step


class Owed(NamedTuple):
    """Events to send, in order."""

    events: list[Event]
    start: int  # where in the journal to look next time
    all_read: bool  # or there may be more behind them


class Outbox:
    """What a run owes its channels, for one process that delivers.

    Nothing here is for the training thread: it reads files. Without a folder nothing is recorded,
    and what is known of deliveries ends with the process.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        again: Again = "none",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder.absolute() if folder is not None else None
        self.acknowledged: dict[int, list[str]] = {}  # incident: by whom, each once
        self.silences: list[Silenced] = []
        self._again = again
        self._clock = clock
        self._lock = threading.Lock()  # between the threads of the channels; never while sending
        self._claim: int | None = None
        self._began: float | None = None
        self._read_to = 0  # of the deliveries
        self._settled: set[tuple[str, Key]] = set()
        self._furthest: dict[tuple[str, int], int] = {}  # (channel, incident): kind settled
        self._forgiven: set[tuple[str, Key]] = set()  # refused, and owed unasked
        self._over: set[int] | None = None  # incidents, when this was first asked
        self._refused: set[tuple[str, int]] = set()  # (channel, incident), and nothing sent since
        self._receipts: dict[tuple[str, int], Mapping[str, str]] = {}  # of what was sent first

    def claim(self) -> bool:
        """Become the one that delivers this run, or return False: another process is."""
        with self._lock:
            if self.folder is None or self._claim is not None:
                return True
            try:
                file = os.open(self.folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError:  # a full disk: better told twice than not at all
                return True
            if not locks.claim(file):
                os.close(file)
                return False
            self._claim = file
            return True

    def release(self) -> None:
        """Let another process deliver."""
        with self._lock:
            file, self._claim = self._claim, None
            if file is not None:
                locks.release(file)
                os.close(file)

    def abandon(self) -> None:
        """Let go in a forked process of what the parent has claimed."""
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    def refresh(self) -> None:
        """Take in what was written to the deliveries since, by whomever."""
        if self.folder is None:
            return
        began = self.began
        with self._lock:
            for read_to, entry in deliveries.read(self.folder, self._read_to):
                if entry.began == began and not self._forgives(entry):
                    self._take_in(entry)
                self._read_to = read_to

    @property
    def began(self) -> float:
        """When the run began; 0 if its journal does not say."""
        if self._began is None and self.folder is not None:
            first = next(read_journal(self.folder / FILE_NAME), None)
            self._began = first.started if isinstance(first, Started) else None
        return self._began or 0.0

    def owed(self, channel: str, start: int, most: int, wanted: Callable[[Event], bool]) -> Owed:
        """Return events that the channel has yet to be sent, at most so many, from an offset on.

        `wanted` is asked about every event on the way; what it does not want stays owed.
        """
        events: list[Event] = []
        next_start: int | None = None
        read_to = start
        if self.folder is not None:
            for begin, end, event in recorded_events(self.folder / FILE_NAME, start):
                if len(events) == most:
                    return Owed(events, next_start or 0, all_read=False)
                read_to = end
                if wanted(event) and not self.is_settled(channel, event):
                    events.append(event)
                if next_start is None and not self.is_settled(channel, event):
                    next_start = begin
        return Owed(events, read_to if next_start is None else next_start, all_read=True)

    def is_settled(self, channel: str, event: Event) -> bool:
        """Return whether a channel has no need of an event: it, or a later one, is settled."""
        furthest = self._furthest.get((channel, event.incident), 0)
        return (channel, key_of(event)) in self._settled or _ORDER[event.event] < furthest

    def refusals(self, channel: str) -> int:
        """Return of how many incidents a channel refused the latest message."""
        return sum(name == channel for name, _ in self._refused)

    def was_refused(self, channel: str, events: Sequence[Event]) -> bool:
        """Return whether any of these was refused earlier, and nobody asked to try it again."""
        return any((channel, key_of(event)) in self._forgiven for event in events)

    def receipt(self, channel: str, incident: int) -> Mapping[str, str] | None:
        """Return that of the incident's first message on a channel; None if there was none."""
        return self._receipts.get((channel, incident))

    def settle(
        self,
        channel: str,
        events: Sequence[Event],
        outcome: Outcome,
        *,
        attempts: int = 0,
        reason: str = "",
        receipt: Mapping[str, str] | None = None,
    ) -> None:
        """Note what became of events, and write it down, or raise OSError."""
        began, now = self.began, self._clock()
        entries = [
            Delivered(
                began=began,
                incident=event.incident,
                event=event.event,
                step=event.step,
                channel=channel,
                time=now,
                outcome=outcome,
                attempts=attempts,
                reason=reason,
                receipt=dict(receipt or {}),
            )
            for event in events
        ]
        with self._lock:
            for entry in entries:
                self._take_in(entry)
        if self.folder is not None:
            deliveries.append(self.folder, *entries)

    def in_force(self, time: float) -> list[Silenced]:
        """Return the silences that are not over."""
        step = self.last_step() if self.silences else None
        return [silence for silence in self.silences if silence.holds(step, time)]

    def pass_over(self, channel: str, events: Sequence[Event]) -> None:
        """Note that a channel does not take events. Not written: the next process asks again."""
        with self._lock:
            self._settled.update((channel, key_of(event)) for event in events)

    def last_step(self) -> int | None:
        """Return the step the run has come to, as far as it is on disk."""
        return None if self.folder is None else last_step(self.folder)

    def _forgives(self, entry: Entry) -> bool:
        """Return whether an entry does not count: it is a refusal, and is to be tried again."""
        if not isinstance(entry, Delivered) or entry.outcome != "refused" or self._again == "none":
            return False
        if self._again == "open":
            if entry.incident in self._incidents_over():
                return False
            self._forgiven.add((entry.channel, (entry.incident, entry.event, entry.step)))
        return True

    def _incidents_over(self) -> set[int]:
        if self._over is None and self.folder is not None:
            events = recorded_events(self.folder / FILE_NAME)
            self._over = {event.incident for _, _, event in events if event.event == "resolved"}
        return self._over or set()

    def _take_in(self, entry: Entry) -> None:
        if isinstance(entry, Acknowledged):
            names = self.acknowledged.setdefault(entry.incident, [])
            if entry.by not in names:
                names.append(entry.by)
        elif isinstance(entry, Silenced):
            self.silences.append(entry)
        elif isinstance(entry, Unsilenced):
            self.silences = [other for other in self.silences if other.signal != entry.signal]
        else:
            place = (entry.channel, entry.incident)
            self._settled.add((entry.channel, (entry.incident, entry.event, entry.step)))
            self._furthest[place] = max(self._furthest.get(place, 0), _ORDER[entry.event])
            if entry.outcome == "refused":
                self._refused.add(place)
            elif entry.outcome == "sent":
                self._refused.discard(place)
                self._receipts.setdefault(place, entry.receipt)


def last_step(folder: Path) -> int | None:
    """Return the last step that a run's journal holds."""
    last = next(steps_back(folder / FILE_NAME), None)
    return None if last is None else last.step
