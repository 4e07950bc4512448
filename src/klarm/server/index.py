"""The index of a folder of runs: one thread keeps it up to date, any number of threads read it."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from klarm.server.changes import Changes
from klarm.server.database import Database
from klarm.server.run_view import RunView
from klarm.server.watch import Watch

_MAX_NOTICES = 200


class Notice(msgspec.Struct):
    """A message for the user about a run or about the server."""

    time: float
    run: str
    text: str


class Index:
    """Answers questions about the runs below a folder."""

    def __init__(self, root: Path, say: Callable[[str], None] = lambda _: None) -> None:
        """Open or create the index; `start` begins to read. `say` is called with problems."""
        self.root = root
        self.notices: deque[Notice] = deque(maxlen=_MAX_NOTICES)
        self.changes = Changes()
        self._tell = say
        self.database = Database(root, lambda text: self._say("", text))
        self.watch = Watch(root, self.database, self.changes, self._say)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread that reads the journals and keeps reading as they grow."""
        self._thread = threading.Thread(
            target=self.watch.run, args=(self._stopped,), name="klarm-index", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the files."""
        self._stopped.set()
        self.watch.nudge()
        if self._thread is not None:
            self._thread.join(timeout=10.0)
        self.database.close()

    def reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Provide a consistent view of the index for the current thread."""
        return self.database.reading()

    @contextlib.contextmanager
    def run(self, id_: str) -> Iterator[RunView]:
        """Provide a consistent view of one run, or raise ApiError."""
        with self.reading() as database:
            yield RunView.find(self.root, database, id_)

    def indexing(self) -> tuple[int, int] | None:
        """Return the progress of the first reading; None once every run was read to its end."""
        done, total = self.watch.progress
        return (done, total) if done < total or not self.watch.has_looked else None

    def _say(self, run: str, text: str) -> None:
        self.notices.append(Notice(time.time(), run, text))
        self._tell(f"run {run}: {text}" if run else text)
