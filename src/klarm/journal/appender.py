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

# A local disk takes a line in microseconds. A write that takes longer than this is lost time,
_SLOW_SECONDS = 0.001
# of which training bears so much at once, and in all within a window.
_MAX_HANG_SECONDS = 1.0
_WINDOW_SECONDS, _MAX_SHARE = 60.0, 0.01
# What may wait in memory while the disk is full or slow: hours of training.
_MAX_WAITING_BYTES = 32 * 2**20
_MAX_WAITING_BATCHES = 100_000
_PIECE = 65_536
# The thread writes this much at once: with training at work, it gets the interpreter a few hundred
# times per second, and batches may come faster than that.
_MAX_AT_ONCE = 2**20


class Appender:
    """One `write` for the lines of a batch on the caller's thread, if the disk keeps up.

    - When the disk is full or gone, lines wait in memory; they are written, from the very byte
      where the last write stopped, as soon as it takes them again.
    - When writes turn out slow, a thread takes over behind a bounded queue.
    - `append` never raises. What had to be dropped is counted and said.
    - The lines of a batch stay together: all of them are dropped or none.
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
        # It decides nothing: other users, who cannot open the lock file, see by it who is live.
        locks.claim(self._file)
        self._end = os.fstat(self._file).st_size  # once everything is written
        self._waiting = bytearray()
        self._in_trouble = False
        self._closed = False
        self._dropped = 0
        self._slow_writes: deque[tuple[float, float]] = deque()  # when, and seconds lost
        self._queue: queue.SimpleQueue[bytes | None] | None = None
        self._queued = 0
        self._taken = 0  # of those queued, by the thread

    def append(self, lines: bytes) -> None:
        """Write a batch of lines, newlines included: now, or when it is possible."""
        if self._closed:
            return
        self._end += len(lines)
        if self._queue is not None:
            if self._queued - self._taken < _MAX_WAITING_BATCHES:
                self._queued += 1
                self._queue.put(lines)
            else:
                self._dropped += 1
            return
        start = self._clock()
        self._write(lines)
        end = self._clock()
        if end - start > _SLOW_SECONDS:
            self._was_slow(start, end)

    def cut(self, size: int) -> None:
        """Cut the file to a size; if that fails, end its last line. For use before `append`."""
        try:
            os.ftruncate(self._file, size)
            self._end = size
        except OSError:  # a file system that only appends
            self.append(b"\n")

    @property
    def end(self) -> int | None:
        """Where the file ends once everything is written; None if something was dropped."""
        return None if self._dropped else self._end

    def flush(self, timeout: float) -> bool:
        """Wait at most so many seconds until every line is written; return whether they are."""
        deadline = time.monotonic() + timeout
        while self._queued > self._taken:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        if self._waiting:
            self._write_waiting()
        return not self._waiting

    def is_whole(self, timeout: float) -> bool:
        """Return whether the file holds every line, once it had so many seconds to get there."""
        if self._dropped or not self.flush(timeout):
            return False
        try:  # somebody may have deleted it
            return os.path.samestat(os.fstat(self._file), self._absolute.stat())
        except OSError:
            return False

    def close(self, timeout: float) -> None:
        """Flush and close; say what is lost if the time did not suffice."""
        complete = self.flush(timeout)
        left = self._queued - self._taken + self._dropped
        if left or not complete:
            self._say(
                f"{self._path} is not complete: {left} entries and {len(self._waiting)} bytes "
                "could not be written"
            )
        self._closed = True
        locks.release(self._file)
        if self._queue is None:
            os.close(self._file)
        else:
            self._queue.put(None)  # the thread closes the file when it is through

    def abandon(self) -> None:
        """Let go of the file without writing: it belongs to the process this one came from."""
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
            self._report(error)
        if written != len(lines):
            self._waiting += lines[written:]

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

    def _was_slow(self, start: float, end: float) -> None:
        """Have a thread write from now on, if too much time was lost; quick writes do not count."""
        slow = self._slow_writes
        slow.append((start, end - start))
        while slow[0][0] < end - _WINDOW_SECONDS and len(slow) > 1:
            slow.popleft()
        lost = sum(seconds for _, seconds in slow)
        if end - start > _MAX_HANG_SECONDS or lost > _MAX_SHARE * _WINDOW_SECONDS:
            self._start_thread(lost)

    def _start_thread(self, lost: float) -> None:
        batches: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        thread = threading.Thread(
            target=self._work, args=(batches,), name="klarm-journal", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no more threads to be had: it stays slow
            self._slow_writes.clear()
            return
        self._queue = batches
        self._say(
            f"writing {self._path} is slow ({lost:.1f} s lost within a minute): the disk is, or "
            "other threads keep Python busy. From now on a thread writes, and training does not "
            "wait"
        )

    def _work(self, batches: queue.SimpleQueue[bytes | None]) -> None:
        is_open = True
        while is_open:
            waiting, is_open = _taken_at_once(batches)
            if self._waiting:  # each is kept or dropped by itself
                for lines in waiting:
                    self._write(lines)
            else:
                self._write(b"".join(waiting))
            self._taken += len(waiting)
        os.close(self._file)


def _taken_at_once(batches: queue.SimpleQueue[bytes | None]) -> tuple[list[bytes], bool]:
    """Wait for a batch; return it and those behind it, and whether more are to come."""
    taken: list[bytes] = []
    size = 0
    while (lines := batches.get()) is not None:
        taken.append(lines)
        size += len(lines)
        if size >= _MAX_AT_ONCE or batches.empty():
            return taken, True
    return taken, False
