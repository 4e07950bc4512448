"""One run in the watching thread: what was read already, and what is new."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from klarm.delivery import deliveries
from klarm.journal import COMMANDS_FILE, FILE_NAME, activity_of, rank_of, read_commands
from klarm.server.changes import RunChange
from klarm.server.database import Database
from klarm.server.false_alarms import FILE_NAME as FALSE_ALARMS_FILE
from klarm.server.folders import shown
from klarm.server.run_index import CHUNK_BYTES, News, RunIndex
from klarm.server.sparklines import sparklines
from klarm.server.summary import RunSummary, latest_values, metric_names, summary_of
from klarm.types import Command

_IDLE_SECONDS = 2.0  # between two checks of a run that is not training
_LOCK_SECONDS = 2.0  # between two checks whether a process is still training
_SPARKLINE_SECONDS = 3.0
# The files beside a journal, and what has changed if such a file has.
_BESIDE = {
    COMMANDS_FILE: "commands",
    deliveries.FILE_NAME: "deliveries",
    FALSE_ALARMS_FILE: "incidents",
}
_TABLES = ("blocks", "extremes", "packs", "metrics", "records")
# Called with the id of a run, or "" for the server, and a message.
Say = Callable[[str, str], None]


class FileState(NamedTuple):
    """The state of a file, by which a change is noticed."""

    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> FileState:
        """Return the state of a file, or raise OSError."""
        found = path.stat()
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


class WatchedRun:
    """Keeps one run up to date in the index. Only the writing thread may use it."""

    def __init__(self, database: Database, run: int, relative: bytes, folder: Path) -> None:
        """Prepare for a run about which nothing is known."""
        self.run, self.relative, self.folder = run, relative, folder
        self.state = FileState(0, -1, 0)  # the state of the journal when it was read to its end
        self.summary: RunSummary | None = None
        self.is_behind = True  # whether a part of its journal is still to be read
        self.is_settled = False  # whether everything known about it is shown
        self.look_at = 0.0  # when it is due again
        self._database = database
        self._index: RunIndex | None = None  # kept while the journal grows
        self._journal = folder / FILE_NAME
        self._paths = {name: str(folder / name) for name in _BESIDE}
        self._beside: dict[str, int] = {}  # their sizes
        self._look_at_lock = self._draw_at = 0.0

    def look(self, id_: str, now: float, say: Say) -> RunChange | None:
        """Read what is new; return it, or None. May raise OSError and sqlite3.Error."""
        state = FileState.of(self._journal)
        news = self._read(id_, state, say) if state != self.state or self.is_behind else News()
        self._look_beside(news)
        is_new = self.summary is None
        if news.what or is_new or (self._trains and now >= self._look_at_lock):
            self._look_at_lock = now + _LOCK_SECONDS
            self._summarise(id_, news, now)
        if not self._trains:
            self.look_at = now + _IDLE_SECONDS
            if not self.is_behind and self._index is not None:
                self._index.release()
                self._index = None
        if is_new:
            news.what.add("added")
        self.is_settled = not self.is_behind
        return self._change(id_, news) if news.what else None

    def give_up(self, until: float) -> None:
        """Skip a run for a while, because it cannot be read."""
        self._index, self.is_behind, self.look_at = None, False, until
        self.is_settled = True

    def remove(self) -> None:
        """Delete the run from the index."""
        with self._database.writing() as database:
            for table in ("runs", *_TABLES):
                database.execute(f"DELETE FROM {table} WHERE run = ?", (self.run,))

    @property
    def _trains(self) -> bool:
        return self.summary is not None and self.summary.activity == "training"

    def _look_beside(self, news: News) -> None:
        beside = {name: _size_of(path) for name, path in self._paths.items()}
        if self._beside:
            news.what |= {
                what for name, what in _BESIDE.items() if beside[name] != self._beside[name]
            }
        self._beside = beside

    def _read(self, id_: str, state: FileState, say: Say) -> News:
        """Read the next chunk of the journal."""
        known = self._index or self._load(id_, state, say)
        if known is None:  # nothing has changed since it was last read
            self.is_behind = False
            return News()
        if known.fold.read_to > state.size:
            known = self._begin_again(id_, say)
        damaged = known.damages.count
        self._index = None  # so that it is loaded again if reading fails
        with self._database.writing() as database:
            read_to = known.fold.read_to
            news = known.read(database)
            self.is_behind = known.fold.read_to - read_to >= CHUNK_BYTES
            if not self.is_behind:
                database.execute(
                    "UPDATE runs SET inode = ?, size = ?, modified = ? WHERE run = ?",
                    (*state, self.run),
                )
        if not self.is_behind:
            self.state = state
        self._index = known
        if known.damages.count > damaged:
            news.what.add("notices")
            for line in known.damages.named[damaged:]:
                say(id_, line)
        return news

    def _load(self, id_: str, state: FileState, say: Say) -> RunIndex | None:
        if state == self.state and self.summary is not None:
            return None
        known = RunIndex(self.run, self.folder)
        return known if known.load(self._database.writer) else self._begin_again(id_, say)

    def _begin_again(self, id_: str, say: Say) -> RunIndex:
        """Delete what was read and start over: the journal was replaced by another."""
        with self._database.writing() as database:
            for table in _TABLES:
                database.execute(f"DELETE FROM {table} WHERE run = ?", (self.run,))
            database.execute("UPDATE runs SET fold = NULL, ordered = 3 WHERE run = ?", (self.run,))
        say(id_, "its journal was replaced: reading it from the beginning")
        return RunIndex(self.run, self.folder)

    def _summarise(self, id_: str, news: News, now: float) -> None:
        """Update the summary of the run in the overview, if it has changed."""
        known = self._index
        if known is None:
            known = RunIndex(self.run, self.folder)
            if not known.load_fold(self._database.writer):
                return
        activity = activity_of(known.fold, known.journal)
        summary = summary_of(
            run_id=id_,
            folder=shown(self.relative) or self.folder.name,
            fold=known.fold,
            incidents=known.incidents(self._commands(), at_rest=activity != "training"),
            activity=activity,
            last_seen=known.last_seen,
            damaged_lines=known.damages.count,
            is_cut_off=activity != "training" and self.state.size > known.fold.read_to,
            latest=latest_values(self._database.writer, self.run, known.whole()),
            logged=metric_names(self._database.writer, self.run),
        )
        earlier, self.summary = self.summary, summary
        if earlier is not None:
            if summary.activity != earlier.activity:
                news.what.add("activity")
            if (summary.incidents, summary.worst) != (earlier.incidents, earlier.worst):
                news.what.add("incidents")
        is_drawn = earlier is None or ("steps" in news.what and now >= self._draw_at)
        if summary == earlier and not is_drawn:
            return
        drawn = None
        if is_drawn:
            # Intervals differ between runs, so that not all are drawn at the same time.
            self._draw_at = now + _SPARKLINE_SECONDS * (1.0 + self.run % 10 / 10.0)
            drawn = msgspec.json.encode(sparklines(self._database.writer, self.run, known.whole()))
        with self._database.writing() as database:
            database.execute(
                "UPDATE runs SET summary = ?, rank = ?, last_seen = ?, "
                "sparklines = coalesce(?, sparklines) WHERE run = ?",
                (
                    *(msgspec.json.encode(summary), rank_of(summary.health), summary.last_seen),
                    *(drawn, self.run),
                ),
            )

    def _commands(self) -> list[Command]:
        if not self._beside.get(COMMANDS_FILE):
            return []
        try:
            return [command for _, command in read_commands(self.folder)]
        except OSError:
            return []

    def _change(self, id_: str, news: News) -> RunChange:
        change = RunChange(id_, sorted(news.what))
        if self.summary is not None:
            change.last_step, change.last_seen = self.summary.last_step, self.summary.last_seen
            change.health, change.activity = self.summary.health, self.summary.activity
            change.incidents, change.latest = self.summary.incidents, self.summary.latest
        if "steps" in news.what:
            change.first_changed_step = int(news.first_step)
        return change


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116  # of every run, all the time: Path is slow
    except FileNotFoundError:
        return 0
