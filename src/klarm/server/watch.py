"""Watches a store: finds runs, reads them as they grow, and publishes changes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from klarm.server.changes import Changes, RunChange
from klarm.server.row_cache import RowCache
from klarm.server.watched_run import Say, WatchedRun
from klarm.store import FolderStore, RunAt, id_of

_ROUND_SECONDS = 0.25
_DISCOVER_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_PUBLISH_SECONDS = 0.1  # the time after which changes are published, so that clients see them
# On a slow disk or with many runs, looking for changes may take about a twentieth of the time.
_DISCOVER_PAUSE_FACTOR = 20.0


class Watch:
    """Keeps the runs of a store up to date. One thread calls `look` repeatedly."""

    def __init__(
        self,
        store: FolderStore,
        changes: Changes,
        cache: RowCache,
        say: Say,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare. `say` is called with the id of a run, or "", and a problem."""
        self._store = store
        self._changes = changes
        self._cache = cache
        self._say = say
        self._clock = clock
        self._discover_at = 0.0
        self._known: Mapping[str, RunAt] | None = None  # the last listing
        self.runs: dict[str, WatchedRun] = {}  # by id
        self._said: set[tuple[str, str]] = set()
        self._nudged = threading.Event()
        self.has_looked = False  # whether all runs of the folder are known

    @property
    def progress(self) -> tuple[int, int]:
        """How many runs were read to their end, and how many runs there are."""
        runs = list(self.runs.values())
        return sum(run.is_settled for run in runs), len(runs)

    def run(self, stopped: threading.Event) -> None:
        """Call `look` repeatedly until it is stopped."""
        while not stopped.is_set():
            begin = self._clock()
            self.look()
            done, total = self.progress
            if done == total:
                self._nudged.wait(max(_ROUND_SECONDS, self._clock() - begin))
                self._nudged.clear()

    def nudge(self) -> None:
        """Check every run immediately: something was just written."""
        self._discover_at = 0.0
        self._nudged.set()

    def look(self) -> None:
        """Read a slice of what is new in every run that is due."""
        now = self._clock()
        found: list[RunChange] = []
        try:
            if now >= self._discover_at:
                found = self._discover()
            else:
                self._look_at_training()
        except OSError as error:
            self._discover_at = now + _RETRY_SECONDS
            self._report(
                "", f"the runs cannot be looked at ({error.strerror}): what is known stays shown"
            )
        due = deque(watched for watched in self.runs.values() if watched.is_due(now))
        while due:
            end = self._clock() + _PUBLISH_SECONDS
            while due and self._clock() < end:
                found += self._look_at_run(due.popleft(), now)
            self._changes.publish(found)
            found = []
        self._changes.publish(found)
        self.has_looked = self.has_looked or self._known is not None

    def _discover(self) -> list[RunChange]:
        """Add new runs, note which have changed, and remove those that no longer exist."""
        begin = self._clock()
        listing = self._store.runs(since=self._known)
        self._known = listing.cursor
        for at in listing.changed:
            self._note(at)
        took = self._clock() - begin
        self._discover_at = begin + max(_DISCOVER_SECONDS, _DISCOVER_PAUSE_FACTOR * took)
        return [self._remove(run) for run in listing.gone]

    def _look_at_training(self) -> None:
        """Note which of the runs that train have changed: others are looked at less often."""
        training = [watched.run for watched in self.runs.values() if watched.trains]
        if training:
            for at in self._store.runs(only=training).cursor.values():
                self._note(at)

    def _note(self, at: RunAt) -> None:
        id_ = id_of(at.run)
        if id_ in self.runs:
            self.runs[id_].at = at
        else:
            self.runs[id_] = WatchedRun(self._store, at, self._cache)

    def _remove(self, run: str) -> RunChange:
        id_ = id_of(run)
        self.runs.pop(id_, None)
        self._cache.forget(run)
        self._store.summary(run, b"")
        self._report(id_, "its journal is gone, so it is no longer shown")
        self._said = {said for said in self._said if said[0] != id_}
        return RunChange(id_, ["removed"])

    def _look_at_run(self, watched: WatchedRun, now: float) -> list[RunChange]:
        try:
            change = watched.look(now, self._report)
        except (OSError, OverflowError, ValueError) as error:
            watched.retry_at = now + _RETRY_SECONDS
            watched.is_settled = True
            self._report(watched.id, f"its journal cannot be read ({error})")
            return []
        return [] if change is None else [change]

    def _report(self, run: str, text: str) -> None:
        if (run, text) not in self._said:
            self._said.add((run, text))
            self._say(run, text)
