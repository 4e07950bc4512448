"""One run in the watching thread: what was read of it already, and what is new."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf

from klarm.runs import News, RunState, continue_from_summary, keep_summary
from klarm.server.changes import RunChange
from klarm.server.row_cache import RowCache
from klarm.server.served_run import ServedRun
from klarm.server.sparklines import sparklines
from klarm.server.summary import RunSummary
from klarm.store import FolderStore, RunAt, id_of

_LOCK_SECONDS = 2.0  # between two checks whether a process is still training
_SPARKLINE_SECONDS = 3.0
# How long the state of a run is kept in memory after it was last read or asked for.
_IDLE_SECONDS = 60.0
# What has changed if a log beside the journal has.
_BESIDE = {"commands": "commands", "deliveries": "deliveries", "false_alarms": "incidents"}
# A summary is kept after this many bytes of a run that trains, and at its end after fewer.
_MIN_KEPT, _MIN_KEPT_AT_END = 2**23, 2**16
# Called with the id of a run, or "" for the server, and a message.
Say = Callable[[str, str], None]


class WatchedRun:
    """Keeps one run up to date. The watching thread reads; any thread may ask for a view."""

    def __init__(self, store: FolderStore, at: RunAt, cache: RowCache) -> None:
        """Prepare for a run about which nothing is known."""
        self.id, self.run = id_of(at.run), at.run
        self.at = at  # as it was listed last
        self.summary: RunSummary | None = None
        self.order: tuple[object, ...] = ()
        self.sparklines: dict[str, list[float | None]] = {}
        self.incidents: frozenset[str] = frozenset()  # ids
        self.is_settled = False  # whether everything known about it is shown
        self.retry_at = 0.0  # if it could not be read
        self._store, self._cache = store, cache
        self._lock = threading.Lock()  # on the state
        self._state: RunState | None = None
        self._inode: int | None = None  # of the journal that was read
        self._read_to = 0  # how far
        self._seen: RunAt | None = None  # as it was when everything was read
        self._kept_to = 0  # the offset up to which the kept summary goes
        self._is_at_end = False  # whether nothing more could be read of the journal
        self._look_at_lock = self._draw_at = self._used_at = 0.0

    @property
    def trains(self) -> bool:
        """Whether a process is training it."""
        return self.summary is not None and self.summary.activity == "training"

    def is_due(self, now: float) -> bool:
        """Return whether there may be something new."""
        if now < self.retry_at:
            return False
        if self._seen != self.at:
            return True
        if self.trains:
            return now >= self._look_at_lock
        return self._state is not None and now >= self._used_at + _IDLE_SECONDS

    def look(self, now: float, say: Say) -> RunChange | None:
        """Read the next slice of what is new; return what has changed. May raise OSError."""
        with self._lock:
            at, seen = self.at, self._seen
            journal = at.logs["journal"]
            news = News()
            if seen is None or seen.logs["journal"] != journal:
                news = self._read(at, say)
            state = self._state
            is_behind = state is not None and state.read_to < journal.size and not self._is_at_end
            if seen is not None:
                news.what |= {
                    what for log, what in _BESIDE.items() if at.logs.get(log) != seen.logs.get(log)
                }
            is_new = self.summary is None
            if news.what or is_new or (self.trains and now >= self._look_at_lock):
                self._look_at_lock = now + _LOCK_SECONDS
                self._summarise(news, now)
            if not is_behind:
                self._seen, self.is_settled = at, True
                self._keep()
            if is_new:
                news.what.add("added")
            if not self.trains and not is_behind and now >= self._used_at + _IDLE_SECONDS:
                self._state = None  # few runs are looked at again
            return self._change(news) if news.what else None

    def view(self, now: float) -> ServedRun:
        """Return the run as far as it is known now. May raise OSError."""
        with self._lock:
            self._used_at = now
            return self._served(self._loaded().copy())

    def _read(self, at: RunAt, say: Say) -> News:
        """Read the next slice of the journal."""
        journal = at.logs["journal"]
        is_first = self._seen is None and self._state is None
        is_other = self._inode not in (None, journal.inode) or journal.size < self._read_to
        self._inode = journal.inode
        if is_other:
            say(self.id, "its journal was replaced: reading it from the beginning")
            self._read_to, self._state = 0, self._new_state()
        state = self._loaded()
        damaged = state.damages.count
        before = state.read_to
        news = state.read()
        self._is_at_end, self._read_to = state.read_to == before, state.read_to
        if is_first and before:  # from the kept summary
            news.what |= {"config", "activity"}
        for line in state.damages.named[damaged:]:
            say(self.id, line)
        return news

    def _loaded(self) -> RunState:
        """Return the state in memory, or the kept one, or a new one."""
        if self._state is None:
            state = self._state = self._new_state()
            continue_from_summary(state, self.at.logs["journal"].size)
            self._kept_to = state.read_to
            for _ in state.read_all(until=self._read_to):  # as far as it was read before
                pass
        return self._state

    def _new_state(self) -> RunState:
        state = RunState(self._store, self.run)
        state.inode = self.at.logs["journal"].inode
        self._kept_to = 0
        self._is_at_end = False
        return state

    def _keep(self) -> None:
        """Keep the summary of what was read, if reading it again would take long."""
        if self._state is None:
            return
        unkept = self._state.read_to - self._kept_to
        if unkept >= (_MIN_KEPT if self.trains else _MIN_KEPT_AT_END):
            keep_summary(self._state, self.at.logs["journal"].size)
            self._kept_to = self._state.read_to

    def _served(self, state: RunState) -> ServedRun:
        folder, size = self._store.root / self.run, self.at.logs["journal"].size
        return ServedRun(state, folder, size, self._cache)

    def _summarise(self, news: News, now: float) -> None:
        """Update the summary of the run in the overview, if it has changed."""
        state = self._loaded()
        view = self._served(state)  # nobody else reads on meanwhile
        earlier, self.summary = self.summary, view.summary
        self.order, self.incidents = view.order, frozenset(view.incidents)
        summary = self.summary
        if earlier is not None:
            if summary.activity != earlier.activity:
                news.what.add("activity")
            if (summary.incidents, summary.worst) != (earlier.incidents, earlier.worst):
                news.what.add("incidents")
        if earlier is None or ("steps" in news.what and now >= self._draw_at):
            # Intervals differ between runs, so that not all are drawn at the same time.
            self._draw_at = now + _SPARKLINE_SECONDS * (1.0 + hash(self.id) % 10 / 10.0)
            self.sparklines = sparklines(state.curves, summary.first_step, summary.last_step)

    def _change(self, news: News) -> RunChange:
        change = RunChange(self.id, sorted(news.what))
        if self.summary is not None:
            change.last_step, change.last_seen = self.summary.last_step, self.summary.last_seen
            change.health, change.activity = self.summary.health, self.summary.activity
            change.incidents, change.latest = self.summary.incidents, self.summary.latest
        if "steps" in news.what and news.first_step < inf:
            change.first_changed_step = int(news.first_step)
        return change
