"""Watching a folder: finds runs, takes in what their journals have grown by, says what changed."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from klarm.delivery import deliveries
from klarm.journal import COMMANDS_FILE, FILE_NAME, is_surely_free, read_commands
from klarm.server.changes import Changes, RunChange
from klarm.server.database import Database
from klarm.server.false_alarms import FILE_NAME as FALSE_ALARMS_FILE
from klarm.server.folders import find_runs, id_of, shown
from klarm.server.run_index import PIECE, News, RunIndex
from klarm.server.summary import (
    Activity,
    RunSummary,
    latest_values,
    rank_of,
    sparklines,
    summary_of,
)
from klarm.types import Command

_ROUND_SECONDS = 0.25
_IDLE_SECONDS = 2.0  # between two looks at a run that nobody trains
_LOCK_SECONDS = 2.0  # between two looks whether a process still trains
_DISCOVER_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_SPARKLINE_SECONDS = 3.0
# A look at a slow disk may take a tenth of the time.
_PATIENCE = 10.0

_BESIDE = {
    COMMANDS_FILE: "commands",
    deliveries.FILE_NAME: "deliveries",
    FALSE_ALARMS_FILE: "incidents",
}
# Says something about a run, by its id, or about the server.
Say = Callable[[str, str], None]


class _Stat(NamedTuple):
    inode: int
    size: int
    modified: int


class _Watched:
    """A run as the watching thread knows it."""

    def __init__(self, run: int, id_: str, relative: bytes, folder: Path) -> None:
        self.run, self.id, self.relative, self.folder = run, id_, relative, folder
        self.index: RunIndex | None = None  # while it grows
        self.stat = _Stat(0, -1, 0)
        self.beside: dict[str, int] = {}
        self.summary: RunSummary | None = None
        self.is_behind = False  # a part of its journal is still to be read
        self.look_at = self.look_at_lock = self.draw_at = 0.0


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
        self._discover_at = 0.0
        self._runs: dict[bytes, _Watched] = {}
        self._said: set[tuple[str, str]] = set()
        self._nudged = threading.Event()
        self._is_suspect = False  # a request could not read the index
        self._recall()

    @property
    def progress(self) -> tuple[int, int]:
        """How many runs are read to their end, and how many there are."""
        runs = list(self._runs.values())
        return sum(not run.is_behind for run in runs), len(runs)

    def run(self, stopped: threading.Event) -> None:
        """Look until told to stop."""
        while not stopped.is_set():
            begin = self._clock()
            self.look()
            took = self._clock() - begin
            if not any(run.is_behind for run in self._runs.values()):
                self._nudged.wait(max(_ROUND_SECONDS, _PATIENCE * took))
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
        try:
            if self._is_suspect:
                self._is_suspect = False
                self._database.check()
            if now >= self._discover_at and self._database.is_gone():
                raise sqlite3.DatabaseError("it was deleted")
            found = self._discover() if now >= self._discover_at else []
            for watched in list(self._runs.values()):
                if now >= watched.look_at or watched.is_behind:
                    found += self._look_at(watched, now)
        except sqlite3.OperationalError as error:  # no room, or another process has locked it
            self._complain("", f"the index cannot be written ({error}): what is new is not shown")
            self._forget()
            self._discover_at = now + _RETRY_SECONDS
        except sqlite3.DatabaseError as error:
            self._database.rebuild(str(error))
            self._forget()
        else:
            self._changes.publish(found)

    def _forget(self) -> None:
        """Begin again from what the index has."""
        self._runs.clear()
        self._recall()

    def _recall(self) -> None:
        for run, id_, relative, *stat, summary in self._database.writer.execute(
            "SELECT run, id, folder, inode, size, modified, summary FROM runs"
        ):
            watched = self._watched(run, id_, relative)
            watched.stat = _Stat(*stat)
            if summary is not None:
                watched.summary = msgspec.json.decode(summary, type=RunSummary)

    def _watched(self, run: int, id_: str, relative: bytes) -> _Watched:
        folder = self._root / os.fsdecode(relative)
        watched = self._runs[relative] = _Watched(run, id_, relative, folder)
        watched.is_behind = True
        return watched

    def _discover(self) -> list[RunChange]:
        """Take in runs that are new, and drop those that are gone."""
        begin = self._clock()
        there = set(find_runs(os.fsencode(self._root)))
        gone = [watched for relative, watched in self._runs.items() if relative not in there]
        changes = [self._remove(watched) for watched in gone]
        new = sorted(there - self._runs.keys())
        if new:
            with self._database.writing() as database:
                runs = [
                    database.execute(
                        "INSERT INTO runs (id, folder) VALUES (?, ?)", (id_of(relative), relative)
                    ).lastrowid
                    for relative in new
                ]
            for run, relative in zip(runs, new, strict=True):
                self._watched(run or 0, id_of(relative), relative)
        took = self._clock() - begin
        self._discover_at = begin + max(_DISCOVER_SECONDS, _PATIENCE * took)
        return changes

    def _remove(self, watched: _Watched) -> RunChange:
        with self._database.writing() as database:
            for table in ("runs", "blocks", "extremes", "packs", "metrics", "records"):
                database.execute(f"DELETE FROM {table} WHERE run = ?", (watched.run,))
        del self._runs[watched.relative]
        self._complain(watched.id, "its journal is gone, so it is no longer shown")
        self._said = {said for said in self._said if said[0] != watched.id}
        return RunChange(watched.id, ["removed"])

    def _look_at(self, watched: _Watched, now: float) -> list[RunChange]:
        news = News()
        try:
            stat = _stat_of(watched.folder / FILE_NAME)
            if stat != watched.stat or watched.is_behind:
                news = self._read(watched, stat)
            beside = {name: _stat_of(watched.folder / name).size for name in _BESIDE}
        except FileNotFoundError:
            self._discover_at = 0.0  # which notices what is gone
            return []
        except (OSError, OverflowError, ValueError) as error:
            watched.index, watched.is_behind = None, False
            watched.look_at = now + _RETRY_SECONDS
            self._complain(watched.id, f"its journal cannot be read ({error})")
            return []
        if beside != watched.beside:
            differ = {name for name in _BESIDE if beside[name] != watched.beside.get(name, -1)}
            news.what |= {_BESIDE[name] for name in differ} if watched.beside else set()
            watched.beside = beside
        is_new = watched.summary is None
        trains = watched.summary is not None and watched.summary.activity == "training"
        if news.what or is_new or (trains and now >= watched.look_at_lock):
            watched.look_at_lock = now + _LOCK_SECONDS
            self._summarise(watched, news, now)
        if watched.summary is not None and watched.summary.activity != "training":
            watched.look_at = now + _IDLE_SECONDS
            if not watched.is_behind:
                watched.index = None
        if is_new:
            news.what.add("added")
        return [_change(watched, news)] if news.what else []

    def _read(self, watched: _Watched, stat: _Stat) -> News:
        """Take in the next piece of a journal; its statistics are noted once there is no more."""
        known = watched.index or self._load(watched, stat)
        if known is None:  # nothing has happened since it was last read
            watched.is_behind = False
            return News()
        if known.fold.read_to > stat.size:
            known = self._begin_again(watched)
        before = known.damages.count
        watched.index = None  # if this fails, it is loaded again
        with self._database.writing() as database:
            read_to = known.fold.read_to
            news = known.read(database)
            watched.is_behind = known.fold.read_to - read_to >= PIECE
            if not watched.is_behind:
                database.execute(
                    "UPDATE runs SET inode = ?, size = ?, modified = ? WHERE run = ?",
                    (*stat, watched.run),
                )
                watched.stat = stat
        watched.index = known
        if known.damages.count > before:
            news.what.add("notices")
            for line in known.damages.named[before:]:
                self._complain(watched.id, line)
        return news

    def _load(self, watched: _Watched, stat: _Stat) -> RunIndex | None:
        if stat == watched.stat and watched.summary is not None:
            return None
        known = RunIndex(watched.run, watched.folder)
        if not known.load(self._database.writer):
            return self._begin_again(watched)
        return known

    def _begin_again(self, watched: _Watched) -> RunIndex:
        """Read a journal from its first line: another one has come in its place."""
        with self._database.writing() as database:
            for table in ("blocks", "extremes", "packs", "metrics", "records"):
                database.execute(f"DELETE FROM {table} WHERE run = ?", (watched.run,))
            database.execute(
                "UPDATE runs SET fold = NULL, ordered = 3 WHERE run = ?", (watched.run,)
            )
        self._complain(watched.id, "its journal was replaced: reading it from the beginning")
        return RunIndex(watched.run, watched.folder)

    def _summarise(self, watched: _Watched, news: News, now: float) -> None:
        """Note what the overview says of a run, if that has changed."""
        known = watched.index
        if known is None:
            known = RunIndex(watched.run, watched.folder)
            if not known.load_fold(self._database.writer):
                return
        activity = _activity(known)
        commands = _commands_of(watched.folder)
        summary = summary_of(
            run_id=watched.id,
            folder=shown(watched.relative) or watched.folder.name,
            fold=known.fold,
            incidents=known.incidents(commands, at_rest=activity != "training"),
            activity=activity,
            last_seen=known.last_seen,
            damaged_lines=known.damages.count,
            latest=latest_values(self._database.writer, watched.run),
        )
        earlier, watched.summary = watched.summary, summary
        if earlier is not None and summary != earlier:
            if summary.activity != earlier.activity:
                news.what.add("activity")
            if summary.incidents != earlier.incidents or summary.worst != earlier.worst:
                news.what.add("incidents")
        if summary != earlier:
            self._database.writer.execute(
                "UPDATE runs SET summary = ?, rank = ?, last_seen = ? WHERE run = ?",
                (
                    msgspec.json.encode(summary),
                    rank_of(summary.health),
                    summary.last_seen,
                    watched.run,
                ),
            )
        if earlier is None or ("steps" in news.what and now >= watched.draw_at):
            watched.draw_at = now + _SPARKLINE_SECONDS
            drawn = msgspec.json.encode(sparklines(self._database.writer, watched.run))
            self._database.writer.execute(
                "UPDATE runs SET sparklines = ? WHERE run = ?", (drawn, watched.run)
            )

    def _complain(self, run: str, text: str) -> None:
        if (run, text) not in self._said:
            self._said.add((run, text))
            self._say(run, text)


def _change(watched: _Watched, news: News) -> RunChange:
    summary = watched.summary
    change = RunChange(watched.id, sorted(news.what))
    if summary is not None:
        change.last_step, change.last_seen = summary.last_step, summary.last_seen
        change.health, change.activity = summary.health, summary.activity
        change.incidents, change.latest = summary.incidents, summary.latest
    if "steps" in news.what:
        change.first_changed_step = int(news.first_step)
    return change


def _activity(known: RunIndex) -> Activity:
    if known.fold.finished:
        return "finished"
    return "stopped" if is_surely_free(known.journal) else "training"


def _commands_of(folder: Path) -> list[Command]:
    try:
        return [command for _, command in read_commands(folder)]
    except OSError:
        return []


def _stat_of(path: Path) -> _Stat:
    """Return what shows that a file has changed; of a file beside a journal, that it is not there.

    Raises FileNotFoundError for a journal.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        if path.name == FILE_NAME:
            raise
        return _Stat(0, 0, 0)
    return _Stat(found.st_ino, found.st_size, found.st_mtime_ns)
