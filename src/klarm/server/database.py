"""The file of the index: where it is, how it is opened, and what happens if it is damaged.

The index is a cache: it is built from the journals, and rebuilt if it is deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from klarm.journal import claim
from klarm.server.migrations import migrate

FILE_NAME = ".klarm-index.sqlite"
_LOCK_NAME = ".klarm-index.lock"
_BUSY_SECONDS = 10.0
# The statements that begin, commit and roll back.
_TRANSACTION = "BEGIN IMMEDIATE", "COMMIT", ("ROLLBACK",)
_NESTED = "SAVEPOINT part", "RELEASE part", ("ROLLBACK TO part", "RELEASE part")
_FILE_SUFFIXES = ("", "-wal", "-shm", "-journal")


class Database:
    """One SQLite file: one thread writes, any number of threads read meanwhile."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        """Open or create the index of a folder. `say` is called with messages for the user."""
        self._say = say
        self._readers = threading.local()
        self._opened: list[sqlite3.Connection] = []  # the connections of all reading threads
        self._generation = 0  # counts rebuilds: connections to an earlier file are stale
        self.path, self.place, self._claim = _find_place(folder, say)
        self.writer = self._open_or_rebuild()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction of the writer. A nested one is committed with the outer one."""
        begin, commit, roll_back = _TRANSACTION if not self.writer.in_transaction else _NESTED
        self.writer.execute(begin)
        try:
            yield self.writer
        except BaseException:
            for statement in roll_back:
                with contextlib.suppress(sqlite3.Error):  # it may have been rolled back already
                    self.writer.execute(statement)
            raise
        self.writer.execute(commit)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Provide a consistent view of the index for the current thread."""
        known = getattr(self._readers, "connection", None)
        if known is None or known[0] != self._generation:
            known = self._generation, self._connect(self.path)
            self._readers.connection = known
            self._opened.append(known[1])
        connection: sqlite3.Connection = known[1]
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def reading_alone(self) -> Iterator[sqlite3.Connection]:
        """Provide a consistent view with its own connection, which any thread may use."""
        connection = self._connect(self.path)
        try:
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()

    def check(self) -> None:
        """Read the whole file, and raise sqlite3.DatabaseError if it is damaged."""
        with self.reading_alone() as connection:  # existing connections have cached pages
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)

    def rebuild(self, why: str) -> None:
        """Delete the file and create a new one. Only the writing thread may call this."""
        with contextlib.suppress(sqlite3.Error):
            self.writer.close()
        self._discard(why)
        self.writer = self._open()

    def close(self) -> None:
        """Close all connections, when no thread reads any more."""
        for connection in (*self._opened, self.writer):
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        self._opened.clear()
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None
        else:
            shutil.rmtree(self.path.parent, ignore_errors=True)  # a temporary folder

    def is_gone(self) -> bool:
        """Return whether the file was deleted or replaced, so that new readers miss changes."""
        try:
            return self.path.stat().st_ino != self._inode
        except OSError:
            return True

    def size(self) -> int:
        """Return the size of the file in bytes."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _open_or_rebuild(self) -> sqlite3.Connection:
        try:
            return self._open()
        except sqlite3.OperationalError:
            raise  # the disk is full or access is denied: a new file would not help
        except sqlite3.DatabaseError as error:
            self._discard(str(error))
            return self._open()

    def _open(self) -> sqlite3.Connection:
        connection = self._connect(self.path)
        migrate(connection)
        self._inode = self.path.stat().st_ino
        return connection

    def _discard(self, why: str) -> None:
        self._say(f"the index {self.path.name} cannot be used ({why}): building it again")
        for suffix in _FILE_SUFFIXES:
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self._generation += 1

    @staticmethod
    def _connect(path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA page_size = 16384")  # so that a packed column fits a page
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA cache_size = -65536")
        except BaseException:
            connection.close()
            raise
        return connection


def _find_place(folder: Path, say: Callable[[str], None]) -> tuple[Path, str, int | None]:
    """Return the path of the index, where that is in words, and the lock that is held on it."""
    beside, cache = folder.absolute(), _cache_folder()
    digest = hashlib.sha256(os.fsencode(beside)).hexdigest()[:16]
    for place, name, directory in (
        ("beside the runs", FILE_NAME, beside),
        ("in the cache folder", f"index-{digest}.sqlite", cache),
    ):
        try:
            if directory is cache:
                directory.mkdir(parents=True, exist_ok=True)
            lock = os.open(
                directory / (_LOCK_NAME if directory is beside else f"{name}.lock"),
                os.O_RDWR | os.O_CREAT,
                0o600,
            )
        except OSError:
            continue
        if claim(lock):
            return directory / name, place, lock
        os.close(lock)
        say("another klarm serve uses the index of this folder: building a separate one")
        break
    return (
        Path(tempfile.mkdtemp(prefix="klarm-index-")) / "index.sqlite",
        "in a temporary folder",
        None,
    )


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    with contextlib.suppress(RuntimeError):  # the user has no home folder
        return Path(base).expanduser() / "klarm"
    return Path(tempfile.gettempdir()) / "klarm"
