"""Appends lines to one file for a caller that must not wait and must not fail."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from klarm.journal import locks

# A local disk writes a line in microseconds. A write that takes longer than this counts as slow.
_SLOW_SECONDS = 0.001
# A thread takes over after one write this slow, or when slow writes take this share of a window.
_MAX_HANG_SECONDS = 1.0
_WINDOW_SECONDS, _MAX_SLOW_SHARE = 60.0, 0.01
# How much is kept in memory while the disk is full or slow: enough for hours of training.
_MAX_WAITING_BYTES = 32 * 2**20
_MAX_WAITING_BATCHES = 100_000
_CHUNK_BYTES = 65_536
# The thread joins batches into writes of this size: while training runs, the thread gets the GIL
# only a few hundred times per second, and batches may arrive faster than that.
_MAX_WRITE_BYTES = 2**20


class Appender:
    """Writes each batch of lines with one `write` on the caller's thread, if the disk keeps up.

    - When the disk is full or unavailable, lines are kept in memory. Once the disk accepts writes
      again, writing continues from the exact byte where the last write stopped.
    - When writes are slow, a thread with a bounded queue takes over.
    - `append` never raises. Batches that had to be dropped are counted and reported.
    - A batch is dropped as a whole or not at all.
    """

    def __init__(
        self,
        path: Path,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
        open_file: Callable[[Path, int], int] = os.open,
    ) -> None:
        """Open the file, or raise OSError."""
        self._path = path
        self._absolute = path.absolute()  # the script may change its directory
        self._say = say
        self._clock = clock
        self._file = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        # This lock excludes nobody. It tells other users, who cannot open the lock file, that a
        # process is recording.
        locks.claim(self._file)
        self._end = os.fstat(self._file).st_size  # where the file ends once everything is written
        self._waiting = bytearray()
        self._is_failing = False
        self._closed = False
        self._dropped = 0
        self._slow_writes: deque[tuple[float, float]] = deque()  # start and duration of each
        self._queue: queue.SimpleQueue[bytes | None] | None = None
        self._queued = 0  # batches put into the queue so far
        self._processed = 0  # batches that the thread has finished so far

    def append(self, lines: bytes) -> None:
        """Write a batch of lines, newlines included, now or as soon as the disk accepts it."""
        if self._closed:
            return
        self._end += len(lines)
        if self._queue is not None:
            if self._queued - self._processed < _MAX_WAITING_BATCHES:
                self._queued += 1
                self._queue.put(lines)
            else:
                self._dropped += 1
            return
        start = self._clock()
        self._write(lines)
        end = self._clock()
        if end - start > _SLOW_SECONDS:
            self._note_slow_write(start, end)

    def cut(self, size: int) -> None:
        """Truncate the file; if that fails, end its last line. Call this before `append`."""
        try:
            os.ftruncate(self._file, size)
            self._end = size
        except OSError:  # the file system only allows appending
            self.append(b"\n")

    @property
    def end(self) -> int | None:
        """Where the file ends once everything is written; None if something was dropped."""
        return None if self._dropped else self._end

    def flush(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until every line is written; return whether they all are."""
        deadline = time.monotonic() + timeout
        while self._queued > self._processed:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        if self._waiting:
            self._write_waiting()
        return not self._waiting

    def is_whole(self, timeout: float) -> bool:
        """Flush for up to `timeout` seconds; return whether the file then holds every line."""
        if self._dropped or not self.flush(timeout):
            return False
        try:  # the file may have been deleted
            return os.path.samestat(os.fstat(self._file), self._absolute.stat())
        except OSError:
            return False

    def close(self, timeout: float) -> None:
        """Flush and close; report what is lost if that takes longer than `timeout` seconds."""
        complete = self.flush(timeout)
        left = self._queued - self._processed + self._dropped
        if left or not complete:
            self._say(
                f"{self._path} is incomplete: {left} entries and {len(self._waiting)} bytes "
                "could not be written"
            )
        self._closed = True
        locks.release(self._file)
        if self._queue is None:
            os.close(self._file)
        else:
            self._queue.put(None)  # the thread closes the file when it has written everything

    def abandon(self) -> None:
        """Close the file without writing, in a forked child: the file belongs to the parent."""
        self._closed = True
        os.close(self._file)

    def _write(self, lines: bytes) -> None:
        if self._waiting:
            if len(self._waiting) + len(lines) > _MAX_WAITING_BYTES:
                self._dropped += 1
            else:
                self._waiting += lines
            self._write_waiting()
            return
        try:
            written = os.write(self._file, lines)
        except OSError as error:
            written = 0
            self._report_failure(error)
        if written != len(lines):
            self._waiting += lines[written:]

    def _write_waiting(self) -> None:
        try:
            while self._waiting:
                written = os.write(self._file, self._waiting[:_CHUNK_BYTES])
                del self._waiting[:written]
        except OSError as error:
            self._report_failure(error)
            return
        if self._is_failing:
            self._is_failing = False
            self._say(f"{self._path} can be written again")

    def _report_failure(self, error: OSError) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._say(
                f"cannot write {self._path} ({error.strerror}); training continues, and new lines "
                "are kept in memory until the disk accepts them"
            )

    def _note_slow_write(self, start: float, end: float) -> None:
        """Add up the time lost to slow writes; hand over to a thread if it is too much."""
        slow = self._slow_writes
        slow.append((start, end - start))
        while slow[0][0] < end - _WINDOW_SECONDS and len(slow) > 1:
            slow.popleft()
        lost = sum(seconds for _, seconds in slow)
        if end - start > _MAX_HANG_SECONDS or lost > _MAX_SLOW_SHARE * _WINDOW_SECONDS:
            self._start_thread(lost)

    def _start_thread(self, lost: float) -> None:
        self._slow_writes.clear()
        batches: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        thread = threading.Thread(
            target=self._work, args=(batches,), name="klarm-journal", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no thread can be started: this thread keeps writing
            return
        self._queue = batches
        self._say(
            f"writing {self._path} is slow ({lost:.1f} s lost within a minute): the disk is slow, "
            "or other threads hold the GIL. From now on a thread writes it, so that training does "
            "not wait"
        )

    def _work(self, batches: queue.SimpleQueue[bytes | None]) -> None:
        is_open = True
        while is_open:
            waiting, is_open = _take_batches(batches)
            if self._waiting:  # each batch is kept or dropped on its own
                for lines in waiting:
                    self._write(lines)
            else:
                self._write(b"".join(waiting))
            self._processed += len(waiting)
        os.close(self._file)


def _take_batches(batches: queue.SimpleQueue[bytes | None]) -> tuple[list[bytes], bool]:
    """Wait for a batch; return it with those queued behind it, and whether the queue is open."""
    taken: list[bytes] = []
    size = 0
    while (lines := batches.get()) is not None:
        taken.append(lines)
        size += len(lines)
        if size >= _MAX_WRITE_BYTES or batches.empty():
            return taken, True
    return taken, False
