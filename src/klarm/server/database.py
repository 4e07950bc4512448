"""The file of the index: where it lies, how it is opened, and what happens when it is damaged.

Nothing in it is the only copy: it is made from the journals, and made again when it is deleted.
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
# How a transaction begins, how it is stored, and how it is taken back.
_TRANSACTION = "BEGIN IMMEDIATE", "COMMIT", ("ROLLBACK",)
_WITHIN = "SAVEPOINT part", "RELEASE part", ("ROLLBACK TO part", "RELEASE part")
_BESIDE_FILES = ("", "-wal", "-shm", "-journal")


class Database:
    """One SQLite file: one thread writes, any number of threads read meanwhile."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        """Open the index of a folder, or make one. `say` is told what a person should know."""
        self._say = say
        self._readers = threading.local()
        self._opened: list[sqlite3.Connection] = []  # for reading, by any thread
        self._generation = 0  # counts the files: a connection to an earlier one is of no use
        self.path, self.place, self._claim = _find_place(folder, say)
        self.writer = self._open_or_rebuild()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the writer a transaction: all of it is stored, or nothing.

        Within another one, it is stored together with that.
        """
        begin, commit, roll_back = _TRANSACTION if not self.writer.in_transaction else _WITHIN
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
        """Give any thread a view of the index that does not change while it is used."""
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
        """Give a view that may be passed from thread to thread, for as long as it takes."""
        connection = self._connect(self.path)
        try:
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()

    def check(self) -> None:
        """Raise sqlite3.DatabaseError if the file is damaged. It reads all of it."""
        with self.reading_alone() as connection:  # another one has pages in its memory
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)

    def rebuild(self, why: str) -> None:
        """Throw the file away and begin again. Only the thread that writes may do that."""
        with contextlib.suppress(sqlite3.Error):
            self.writer.close()
        self._discard(why)
        self.writer = self._open()

    def close(self) -> None:
        """Let go of the file, once no thread reads any more."""
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
        """Tell whether somebody has deleted the file: what is written to it then, nobody reads."""
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
            raise  # no room or no access: a new file would fare no better
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
        for end in _BESIDE_FILES:
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)
        self._generation += 1

    @staticmethod
    def _connect(path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA page_size = 16384")  # a packed column lies in one piece
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA cache_size = -65536")
        except BaseException:
            connection.close()
            raise
        return connection


def _find_place(folder: Path, say: Callable[[str], None]) -> tuple[Path, str, int | None]:
    """Return where the index goes, how to call the place, and the lock that is held on it."""
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
        say("another klarm serve uses the index of this folder: building one of its own")
        break
    return (
        Path(tempfile.mkdtemp(prefix="klarm-index-")) / "index.sqlite",
        "in a temporary folder",
        None,
    )


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    with contextlib.suppress(RuntimeError):  # nobody is at home
        return Path(base).expanduser() / "klarm"
    return Path(tempfile.gettempdir()) / "klarm"
