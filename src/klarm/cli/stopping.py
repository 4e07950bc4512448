"""Being told by a signal to end."""

from __future__ import annotations

import contextlib
import queue
import signal


class Stopping:
    """What a loop asks whether to go on, and a signal handler tells to end.

    A handler may interrupt the very call that waits: `threading.Event` would wait for itself there.
    """

    def __init__(self) -> None:
        self._told = False
        self._waker: queue.SimpleQueue[None] = queue.SimpleQueue()  # its `put` may interrupt `get`

    def set(self) -> None:
        """Have it end."""
        self._told = True
        self._waker.put(None)

    def is_set(self) -> bool:
        """Tell whether to end."""
        return self._told

    def wait(self, seconds: float) -> None:
        """Wait so long, or until told."""
        if not self._told:
            with contextlib.suppress(queue.Empty):
                self._waker.get(timeout=seconds)

    def on_signals(self) -> None:
        """Have Ctrl-C and SIGTERM set it; a second one ends the process at once."""

        def stop(*_: object) -> None:
            self.set()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
