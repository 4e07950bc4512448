"""Recent changes of runs, for clients that follow them with a cursor."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from klarm.journal import Activity, RunHealth
from klarm.server.summary import Counts, Number

_MAX_ROUNDS = 2000  # a few minutes of busy runs


class RunChange(msgspec.Struct, omit_defaults=True):
    """What has changed in one run, and its current state in the overview."""

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
    """Changes that were noticed together."""

    cursor: int
    runs: Sequence[RunChange]


class Changes:
    """Passes changes on. One thread publishes, any number of threads read."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Begin with a cursor that is higher than those of an earlier server process."""
        self.cursor = int(clock() * 1000)
        self.server = f"{self.cursor:x}"[-8:]  # changes when the server restarts
        self._rounds: deque[Round] = deque(maxlen=_MAX_ROUNDS)
        self._first = self.cursor  # all changes after this cursor are kept
        self._lock = threading.Lock()
        self.is_over = False  # whether the server is stopping
        self._listeners: list[Callable[[], object]] = []

    def publish(self, runs: Sequence[RunChange]) -> None:
        """Add a round of changes and call all listeners."""
        if not runs:
            return
        with self._lock:
            self.cursor += 1
            if len(self._rounds) == _MAX_ROUNDS:
                self._first = self._rounds[0].cursor
            self._rounds.append(Round(self.cursor, runs))
        self._call_listeners()

    def end(self) -> None:
        """Call all listeners for the last time: the server is stopping."""
        self.is_over = True
        self._call_listeners()

    def since(self, cursor: int) -> list[Round] | None:
        """Return the rounds after a cursor; None if they are no longer kept."""
        with self._lock:
            if not self._first <= cursor <= self.cursor:
                return None
            return [found for found in self._rounds if found.cursor > cursor]

    def listen(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call a listener on the publishing thread at every change; return a function to stop."""
        with self._lock:
            self._listeners.append(listener)

        def end() -> None:
            with self._lock:
                self._listeners.remove(listener)

        return end

    def _call_listeners(self) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener()
