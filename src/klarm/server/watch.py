"""Watches a folder: finds runs, reads them as they grow, and publishes changes."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from klarm.server.changes import Changes, RunChange
from klarm.server.database import Database
from klarm.server.folders import find_runs, id_of
from klarm.server.summary import RunSummary
from klarm.server.watched_run import FileState, Say, WatchedRun

_ROUND_SECONDS = 0.25
_DISCOVER_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_STORE_SECONDS = 0.1  # the time after which a transaction is committed, so that clients see it
# On a slow disk, searching for runs may take at most about a tenth of the time.
_DISCOVER_PAUSE_FACTOR = 10.0


class Watch:
    """Keeps the index of a folder up to date. One thread calls `look` repeatedly."""

    def __init__(
        self,
        root: Path,
        database: Database,
        changes: Changes,
        say: Say,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read what the index has. `say` is called with the id of a run, or "", and a problem."""
        self._root = root
        self._database = database
        self._changes = changes
        self._say = say
        self._clock = clock
        self._discover_at = self._look_at = 0.0
        self._runs: dict[bytes, WatchedRun] = {}  # by folder
        self._said: set[tuple[str, str]] = set()
        self._nudged = threading.Event()
        self.has_looked = False  # whether all runs of the folder are known
        self._is_suspect = False  # whether a request failed to read the index
        self._recall()

    @property
    def progress(self) -> tuple[int, int]:
        """How many runs were read to their end, and how many runs there are."""
        runs = list(self._runs.values())
        return sum(run.is_settled for run in runs), len(runs)

    def run(self, stopped: threading.Event) -> None:
        """Call `look` repeatedly until it is stopped."""
        while not stopped.is_set():
            begin = self._clock()
            self.look()
            took = self._clock() - begin
            done, total = self.progress
            if done == total or self._clock() < self._look_at:
                self._nudged.wait(max(_ROUND_SECONDS, took))
                self._nudged.clear()

    def nudge(self) -> None:
        """Check every run immediately: something was just written."""
        for watched in list(self._runs.values()):
            watched.look_at = 0.0
        self._nudged.set()

    def suspect_damage(self) -> None:
        """Request a check of the index, which is rebuilt if it is damaged."""
        self._is_suspect = True
        self._nudged.set()

    def look(self) -> None:
        """Read what is new in every run that is due."""
        now = self._clock()
        if now < self._look_at:
            return
        found: list[RunChange] = []
        try:
            self._check()
            if now >= self._discover_at:
                found += self._discover()
            due = deque(
                watched
                for watched in self._runs.values()
                if now >= watched.look_at or watched.is_behind
            )
            while due:
                found += self._look_at_some(due, now)
            self.has_looked = True
        except sqlite3.OperationalError as error:  # the disk is full, or the file is locked
            self._report("", f"the index cannot be written ({error}): new data is not shown")
            self._recall()
            self._look_at = now + _RETRY_SECONDS
        except sqlite3.DatabaseError as error:
            self.has_looked = False  # the new, empty index must not look like an empty folder
            self._database.rebuild(str(error))
            self._recall()
        self._changes.publish(found)

    def _check(self) -> None:
        """Raise sqlite3.DatabaseError if the index must be rebuilt."""
        if self._is_suspect:
            self._is_suspect = False
            self._database.check()
        if self._clock() >= self._discover_at and self._database.is_gone():
            self._discover_at = 0.0
            raise sqlite3.DatabaseError("it was deleted")

    def _recall(self) -> None:
        """Reset the known runs to what the index has."""
        self._runs.clear()
        for run, relative, *state, summary in self._database.writer.execute(
            "SELECT run, folder, inode, size, modified, summary FROM runs"
        ):
            watched = self._add(run, relative)
            watched.state = FileState(*state)
            if summary is not None:
                watched.summary = msgspec.json.decode(summary, type=RunSummary)

    def _add(self, run: int, relative: bytes) -> WatchedRun:
        folder = self._root / os.fsdecode(relative)
        watched = self._runs[relative] = WatchedRun(self._database, run, relative, folder)
        return watched

    def _discover(self) -> list[RunChange]:
        """Add new runs, and remove those that no longer exist."""
        begin = self._clock()
        existing = set(find_runs(os.fsencode(self._root)))
        changes = [self._remove(relative) for relative in self._runs.keys() - existing]
        new = sorted(existing - self._runs.keys())
        if new:
            with self._database.writing() as database:
                numbers = [
                    database.execute(
                        "INSERT INTO runs (id, folder) VALUES (?, ?)", (id_of(relative), relative)
                    ).lastrowid
                    for relative in new
                ]
            for number, relative in zip(numbers, new, strict=True):
                self._add(number or 0, relative)
        took = self._clock() - begin
        self._discover_at = begin + max(_DISCOVER_SECONDS, _DISCOVER_PAUSE_FACTOR * took)
        return changes

    def _remove(self, relative: bytes) -> RunChange:
        self._runs.pop(relative).remove()
        id_ = id_of(relative)
        self._report(id_, "its journal is gone, so it is no longer shown")
        self._said = {said for said in self._said if said[0] != id_}
        return RunChange(id_, ["removed"])

    def _look_at_some(self, due: deque[WatchedRun], now: float) -> list[RunChange]:
        """Read due runs for a short while, in one transaction."""
        found: list[RunChange] = []
        end = self._clock() + _STORE_SECONDS
        with self._database.writing():
            while due:
                found += self._look_at_run(due.popleft(), now)
                if self._clock() >= end:
                    break
        return found

    def _look_at_run(self, watched: WatchedRun, now: float) -> list[RunChange]:
        id_ = id_of(watched.relative)
        try:
            change = watched.look(id_, now, self._report)
        except FileNotFoundError:
            watched.give_up(now)
            self._discover_at = 0.0  # the next search removes the run
            return []
        except (OSError, OverflowError, ValueError) as error:
            watched.give_up(now + _RETRY_SECONDS)
            self._report(id_, f"its journal cannot be read ({error})")
            return []
        return [] if change is None else [change]

    def _report(self, run: str, text: str) -> None:
        if (run, text) not in self._said:
            self._said.add((run, text))
            self._say(run, text)
