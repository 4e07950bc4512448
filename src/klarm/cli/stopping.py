"""Lets a command stop cleanly on Ctrl-C and SIGTERM."""

from __future__ import annotations

import contextlib
import queue
import signal


class Stopping:
    """A flag that a signal handler sets, and that a loop checks or waits for.

    The handler may interrupt the call that waits, which would deadlock with `threading.Event`.
    """

    def __init__(self) -> None:
        self._asked_to_stop = False
        self._waker: queue.SimpleQueue[None] = queue.SimpleQueue()  # its `put` may interrupt `get`

    def set(self) -> None:
        """Set the flag."""
        self._asked_to_stop = True
        self._waker.put(None)

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._asked_to_stop

    def wait(self, seconds: float) -> None:
        """Wait for some seconds, or until the flag is set."""
        if not self._asked_to_stop:
            with contextlib.suppress(queue.Empty):
                self._waker.get(timeout=seconds)

    def on_signals(self) -> None:
        """Let Ctrl-C and SIGTERM set the flag; a second one ends the process immediately."""

        def stop(*_: object) -> None:
            self.set()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
