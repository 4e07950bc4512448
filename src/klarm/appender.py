"""Appends lines to one file for a caller that must not wait and must not fail."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

# A local disk takes a line in microseconds; a network file system shows itself by this.
_SLOW_SECONDS = 0.020
_SLOW_IN_A_ROW = 3
# What may wait in memory while the disk is full or slow: hours of training.
_MOST_WAITING_BYTES = 32 * 2**20
_MOST_WAITING_LINES = 100_000
_PIECE = 65_536


class InUseError(Exception):
    """Another live process is appending to the file."""


class Appender:
    """One `write` a line on the caller's thread, as long as the disk keeps up.

    - When the disk is full or gone, lines wait in memory; they are written, from the very byte
      where the last write stopped, as soon as it takes them again.
    - When writes turn out slow, a thread takes over behind a bounded queue.
    - `append` never raises. What had to be dropped is counted and said.
    """

    def __init__(
        self,
        path: Path,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Open the file, or raise OSError, or InUseError."""
        self._path = path
        self._say = say
        self._clock = clock
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if not _lock(self._file):
            os.close(self._file)
            raise InUseError
        self._waiting = bytearray()
        self._in_trouble = False
        self._dropped_lines = 0
        self._slow_writes = 0
        self._queue: queue.Queue[bytes | None] | None = None

    def append(self, line: bytes) -> None:
        """Write one line, newline included: now, or when it is possible."""
        if self._queue is not None:
            try:
                self._queue.put_nowait(line)
            except queue.Full:
                self._dropped_lines += 1
            return
        start = self._clock()
        self._write(line)
        if self._clock() - start < _SLOW_SECONDS:
            self._slow_writes = 0
        else:
            self._slow_writes += 1
            if self._slow_writes == _SLOW_IN_A_ROW:
                self._start_thread()

    def flush(self, timeout: float) -> bool:
        """Wait at most so many seconds until every line is written; return whether they are."""
        deadline = time.monotonic() + timeout
        while self._queue is not None and self._queue.unfinished_tasks:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        if self._waiting:
            self._write_waiting()
        return not self._waiting

    def close(self, timeout: float) -> None:
        """Flush and close; say what is lost if the time did not suffice."""
        complete = self.flush(timeout)
        if self._dropped_lines or not complete:
            self._say(
                f"{self._path} is not complete: {self._dropped_lines} lines were dropped and "
                f"{len(self._waiting)} bytes could not be written in time"
            )
        if complete:
            if self._queue is not None:
                self._queue.put(None)
            os.close(self._file)

    def abandon(self) -> None:
        """Let go of the file without writing: it belongs to the process this one came from."""
        os.close(self._file)

    def _write(self, line: bytes) -> None:
        if self._waiting:
            if len(self._waiting) + len(line) > _MOST_WAITING_BYTES:
                self._dropped_lines += 1
            else:
                self._waiting += line
            self._write_waiting()
            return
        try:
            written = os.write(self._file, line)
        except OSError as error:
            written = 0
            self._report(error)
        if written != len(line):
            self._waiting += line[written:]

    def _write_waiting(self) -> None:
        try:
            while self._waiting:
                written = os.write(self._file, self._waiting[:_PIECE])
                del self._waiting[:written]
        except OSError as error:
            self._report(error)
            return
        if self._in_trouble:
            self._in_trouble = False
            self._say(f"{self._path} is written again")

    def _report(self, error: OSError) -> None:
        if not self._in_trouble:
            self._in_trouble = True
            self._say(
                f"cannot write {self._path} ({error.strerror}); training goes on, and the lines "
                "wait in memory until it can be written again"
            )

    def _start_thread(self) -> None:
        self._say(
            f"writing {self._path} is slow (over {_SLOW_SECONDS * 1000:.0f} ms a line); "
            "from now on a thread does it, and training does not wait"
        )
        self._queue = queue.Queue(_MOST_WAITING_LINES)
        thread = threading.Thread(target=self._work, args=(self._queue,), daemon=True)
        thread.name = "klarm-journal"
        thread.start()

    def _work(self, lines: queue.Queue[bytes | None]) -> None:
        while (line := lines.get()) is not None:
            self._write(line)
            lines.task_done()


def _lock(file: int) -> bool:
    """Claim a file for this process until it ends; return whether nobody else had."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
