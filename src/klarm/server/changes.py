"""What has changed, for those who look on: a cursor, and the last changes behind it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from klarm.journal import Activity, RunHealth
from klarm.server.summary import Counts, Number

_MAX_KEPT = 2000  # rounds: some minutes of busy runs


class RunChange(msgspec.Struct, omit_defaults=True):
    """What has changed of one run, and what the overview says of it now."""

    run: str
    what: list[str]
    first_changed_step: int | None = None
    last_step: int | None = None
    last_seen: float | None = None
    health: RunHealth | None = None
    activity: Activity | None = None
    incidents: Counts | None = None
    latest: dict[str, Number] | None = None


class Round(NamedTuple):
    """Changes that were noticed at once."""

    cursor: int
    runs: Sequence[RunChange]


class Changes:
    """Hands on what has changed. One thread publishes, any number of others ask."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Begin with a cursor beyond those that an earlier server has given."""
        self.cursor = int(clock() * 1000)
        self.server = f"{self.cursor:x}"[-8:]  # changes when the server restarts
        self._rounds: deque[Round] = deque(maxlen=_MAX_KEPT)
        self._first = self.cursor  # what came after this cursor is known
        self._lock = threading.Lock()
        self.is_over = False  # the server ends: nothing will change any more
        self._listeners: list[Callable[[], object]] = []

    def publish(self, runs: Sequence[RunChange]) -> None:
        """Tell everybody."""
        if not runs:
            return
        with self._lock:
            self.cursor += 1
            if len(self._rounds) == _MAX_KEPT:
                self._first = self._rounds[0].cursor
            self._rounds.append(Round(self.cursor, runs))
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def end(self) -> None:
        """Tell everybody that there is no more to come."""
        self.is_over = True
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def since(self, cursor: int) -> list[Round] | None:
        """Return what came after a cursor; None if that is not known any more."""
        with self._lock:
            if not self._first <= cursor <= self.cursor:
                return None
            return [found for found in self._rounds if found.cursor > cursor]

    def listen(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have a listener called, on the publishing thread, at every change; return how to end."""
        with self._lock:
            self._listeners.append(listener)

        def end() -> None:
            with self._lock:
                self._listeners.remove(listener)

        return end
