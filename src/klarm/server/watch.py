"""Watching a folder: finds runs, has them read as they grow, says what changed."""

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
_STORE_SECONDS = 0.1  # of reading: then those who look on see what was found
# Looking for runs on a slow disk may take a tenth of the time.
_PATIENCE = 10.0


class Watch:
    """Keeps the index of a folder up to date. One thread calls `look`, again and again."""

    def __init__(
        self,
        root: Path,
        database: Database,
        changes: Changes,
        say: Say,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take up what the index has. `say` is given a run's id, or nothing, and what is wrong."""
        self._root = root
        self._database = database
        self._changes = changes
        self._say = say
        self._clock = clock
        self._discover_at = self._look_at = 0.0
        self._runs: dict[bytes, WatchedRun] = {}  # by their folder
        self._said: set[tuple[str, str]] = set()
        self._nudged = threading.Event()
        self.has_looked = False  # at least once
        self._is_suspect = False  # a request could not read the index
        self._recall()

    @property
    def progress(self) -> tuple[int, int]:
        """How many runs are read to their end, and how many there are."""
        runs = list(self._runs.values())
        return sum(run.is_settled for run in runs), len(runs)

    def run(self, stopped: threading.Event) -> None:
        """Look until told to stop."""
        while not stopped.is_set():
            begin = self._clock()
            self.look()
            took = self._clock() - begin
            done, total = self.progress
            if done == total or self._clock() < self._look_at:
                self._nudged.wait(max(_ROUND_SECONDS, took))
                self._nudged.clear()

    def nudge(self) -> None:
        """Have it look at once, at every run: somebody has just written something."""
        for watched in list(self._runs.values()):
            watched.look_at = 0.0
        self._nudged.set()

    def suspect_damage(self) -> None:
        """Have the index checked, and built again if it is damaged."""
        self._is_suspect = True
        self._nudged.set()

    def look(self) -> None:
        """Take in what is new in every run whose turn it is."""
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
        except sqlite3.OperationalError as error:  # no room, or another process has locked it
            self._complain("", f"the index cannot be written ({error}): what is new is not shown")
            self._recall()
            self._look_at = now + _RETRY_SECONDS
        except sqlite3.DatabaseError as error:
            self._database.rebuild(str(error))
            self._recall()
        self.has_looked = True
        self._changes.publish(found)

    def _check(self) -> None:
        """Raise sqlite3.DatabaseError if the index has to be built again."""
        if self._is_suspect:
            self._is_suspect = False
            self._database.check()
        if self._clock() >= self._discover_at and self._database.is_gone():
            self._discover_at = 0.0
            raise sqlite3.DatabaseError("it was deleted")

    def _recall(self) -> None:
        """Begin again from what the index has."""
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
        """Take in runs that are new, and drop those that are gone."""
        begin = self._clock()
        there = set(find_runs(os.fsencode(self._root)))
        changes = [self._remove(relative) for relative in self._runs.keys() - there]
        new = sorted(there - self._runs.keys())
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
        self._discover_at = begin + max(_DISCOVER_SECONDS, _PATIENCE * took)
        return changes

    def _remove(self, relative: bytes) -> RunChange:
        self._runs.pop(relative).remove()
        id_ = id_of(relative)
        self._complain(id_, "its journal is gone, so it is no longer shown")
        self._said = {said for said in self._said if said[0] != id_}
        return RunChange(id_, ["removed"])

    def _look_at_some(self, due: deque[WatchedRun], now: float) -> list[RunChange]:
        """Look at runs, for a short while, and store what is new of them at once."""
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
            change = watched.look(id_, now, self._complain)
        except FileNotFoundError:
            watched.give_up(now)
            self._discover_at = 0.0  # which notices what is gone
            return []
        except (OSError, OverflowError, ValueError) as error:
            watched.give_up(now + _RETRY_SECONDS)
            self._complain(id_, f"its journal cannot be read ({error})")
            return []
        return [] if change is None else [change]

    def _complain(self, run: str, text: str) -> None:
        if (run, text) not in self._said:
            self._said.add((run, text))
            self._say(run, text)
