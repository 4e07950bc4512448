"""Writes to a pipe, a terminal or a socket without waiting until somebody reads from it."""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue

# For the thread to write, which takes microseconds where somebody reads. Training waits this long
# at most once: afterwards everything is dropped until the thread has finished.
_SECONDS_FOR_THE_THREAD = 0.05


def write_now(file: int, data: bytes) -> bool:
    """Write as much as is taken immediately; return whether that was everything."""
    own = _opened_again(file)
    if own is None:
        return _thread.write(file, data)
    try:
        while data:
            data = data[os.write(own, data) :]
        return True
    except OSError:  # it is full, or nobody can read it any more
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
        self._late: _Order | None = None

    def write(self, file: int, data: bytes) -> bool:
        """Return whether everything was written in time. The rest of it is written later."""
        if self._thread is None or not self._thread.is_alive():  # as after a fork
            self._start()
        elif self._late is not None and not self._late.done.is_set():
            return False
        order = _Order(file, data)
        self._orders.put(order)
        if not order.done.wait(_SECONDS_FOR_THE_THREAD):
            self._late = order
        return order.written

    def _start(self) -> None:
        # A new queue: a fork may have copied the old one while it was locked.
        self._orders, self._late = SimpleQueue(), None
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
