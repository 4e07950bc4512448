"""The runs of a folder: one thread keeps them up to date, any number of threads ask for them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from klarm.server.changes import Changes
from klarm.server.problems import not_found, unavailable
from klarm.server.row_cache import RowCache
from klarm.server.served_run import ServedRun
from klarm.server.watch import Watch
from klarm.server.watched_run import WatchedRun
from klarm.store import FolderStore

_MAX_NOTICES = 200


class Notice(msgspec.Struct):
    """A message for the user about a run or about the server."""

    time: float
    run: str
    text: str


class Progress(msgspec.Struct):
    """How many runs were read to their end, and how many there are."""

    done: int
    total: int


class Index:
    """Answers questions about the runs below a folder."""

    def __init__(self, root: Path, say: Callable[[str], None] = lambda _: None) -> None:
        """Prepare; `start` begins to read. `say` is called with problems."""
        self.root = root
        self.notices: deque[Notice] = deque(maxlen=_MAX_NOTICES)
        self.changes = Changes()
        self._tell = say
        self.watch = Watch(FolderStore(root), self.changes, RowCache(), self._say)
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self.watch.run, args=(self._stopped,), name="klarm-index", daemon=True
        )

    def start(self) -> None:
        """Start the thread that reads the journals and keeps reading as they grow."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self.watch.nudge()
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)

    def run(self, id_: str) -> ServedRun:
        """Return a view of one run, or raise ApiError."""
        watched = self.watch.runs.get(id_)
        if watched is None or watched.summary is None:
            raise not_found(f"there is no run {id_:.80}", "run")
        cursor = self.changes.cursor
        try:
            view = watched.view(time.monotonic())
        except OSError as error:
            raise unavailable(f"its journal cannot be read: {error.strerror}; try again") from None
        view.cursor = cursor
        view.notices = [notice.text for notice in list(self.notices) if notice.run == id_]
        return view

    def run_with(self, incident: str) -> ServedRun:
        """Return the run that an incident belongs to, or raise ApiError."""
        for watched in list(self.watch.runs.values()):
            if incident in watched.incidents:
                return self.run(watched.id)
        raise not_found(f"there is no incident {incident}", "incident")

    def shown(self) -> list[WatchedRun]:
        """Return the runs of which something is known, the worst first."""
        runs = [run for run in list(self.watch.runs.values()) if run.summary is not None]
        return sorted(runs, key=lambda run: (run.order, run.id))

    def indexing(self) -> Progress | None:
        """Return the progress of the first reading; None once every run was read to its end."""
        done, total = self.watch.progress
        return Progress(done, total) if done < total or not self.watch.has_looked else None

    def _say(self, run: str, text: str) -> None:
        self.notices.append(Notice(time.time(), run, text))
        self._tell(f"run {run}: {text}" if run else text)
