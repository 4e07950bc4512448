"""Writes to a pipe, a terminal or a socket without waiting until somebody reads from it."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from queue import SimpleQueue

# For the thread to write, which takes microseconds where somebody reads. Training waits this long
# at most once: afterwards nobody waits until the thread has finished.
_SECONDS_FOR_THE_THREAD = 0.05
# What waits for a reader. Beyond that, text is dropped until somebody reads.
_MAX_WAITING_BYTES = 65_536
# For a reader who is slow, at the end of the process.
_SECONDS_AT_EXIT = 0.5


def write_now(file: int, data: bytes) -> bool:
    """Write without waiting; return whether everything was written.

    What is not taken immediately is written by a thread, in its order, once somebody reads. If too
    much of it is waiting already, it is dropped.
    """
    own = None if _thread.is_busy else _opened_again(file)
    if own is None:
        return _thread.write(file, data)
    try:
        while data:
            data = data[os.write(own, data) :]
        return True
    except BlockingIOError:  # it is full, or somebody else writes to this terminal right now
        return _thread.write(file, data)
    except OSError:  # nobody can read it any more
        return False
    finally:
        os.close(own)


def _opened_again(file: int) -> int | None:
    """Open a pipe or terminal again, so that only klarm's writes are non-blocking.

    Returns None where that is not possible (a socket, another user's terminal, not on Linux).
    """
    try:
        return os.open(f"/proc/self/fd/{file}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None


class _Order:
    """Bytes to write to a descriptor, and what became of it."""

    __slots__ = ("data", "done", "file", "written")

    def __init__(self, file: int, data: bytes) -> None:
        self.file = file
        self.data = data
        self.done = threading.Event()
        self.written = False


class _WritingThread:
    """Writes where a write may block: it blocks the thread, and training goes on.

    No size is small enough for a write of our own. `select` reports a terminal as ready if it has
    room for one byte, and a write of two then blocks.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._orders: SimpleQueue[_Order] = SimpleQueue()
        self._waiting: deque[_Order] = deque()  # those that nobody waits for

    @property
    def is_busy(self) -> bool:
        """Whether earlier text is still being written."""
        return self._is_alive and any(not order.done.is_set() for order in list(self._waiting))

    def write(self, file: int, data: bytes) -> bool:
        """Return whether everything was written in time. The rest of it is written later."""
        if not self._is_alive:
            self._start()
        while self._waiting and self._waiting[0].done.is_set():
            self._waiting.popleft()
        waiting = sum(len(order.data) for order in list(self._waiting))
        if waiting and waiting + len(data) > _MAX_WAITING_BYTES:
            return False
        order = _Order(file, data)
        self._orders.put(order)
        if waiting or not order.done.wait(_SECONDS_FOR_THE_THREAD):
            self._waiting.append(order)
        return order.written

    def finish(self) -> None:
        """Wait a moment for what is still being written."""
        if self.is_busy:
            self._waiting[-1].done.wait(_SECONDS_AT_EXIT)

    @property
    def _is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()  # it is not after a fork

    def _start(self) -> None:
        # A new queue: a fork may have copied the old one while it was locked.
        self._orders, self._waiting = SimpleQueue(), deque()
        self._thread = threading.Thread(
            target=_write_all, args=(self._orders,), name="klarm-stderr", daemon=True
        )
        self._thread.start()


def _write_all(orders: SimpleQueue[_Order]) -> None:
    while True:
        order = orders.get()
        try:
            while order.data:
                order.data = order.data[os.write(order.file, order.data) :]
            order.written = True
        except OSError:  # nobody can read it any more
            pass
        finally:
            order.done.set()


_thread = _WritingThread()
atexit.register(_thread.finish)
