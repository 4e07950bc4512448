"""The heartbeat of a run: a thread that calls a URL as long as steps are being logged.

If training hangs while the process stays alive, the calls stop, so the hang is noticed as well.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from klarm.boundary import never_raises
from klarm.channels.base import NotDelivered
from klarm.channels.heartbeat import HeartbeatChannel

_RETRY_SECONDS = 60.0  # the pause after a failure, and while no step is logged
_MAX_STOP_SECONDS = 1.0


class Heartbeat:
    """Calls the URL of one channel. `steps` returns how many steps were logged so far."""

    def __init__(
        self, channel: HeartbeatChannel, steps: Callable[[], int], say: Callable[[str], None]
    ) -> None:
        self._channel = channel
        self._steps = steps
        self._say = say
        self._reported = 0  # how many steps there were at the last successful call
        self._is_failing = False
        self._has_failed = False
        self._pid = os.getpid()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._work, name=f"klarm-{channel.name or channel.type}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be started, or Python is shutting down
            self._say(f"{self._channel.name}: no thread can be started, so there is no heartbeat.")

    def stop(self, timeout: float) -> None:
        """Stop; wait briefly for a call in progress."""
        self._stopping.set()
        if self._thread.is_alive() and os.getpid() == self._pid:
            self._thread.join(min(timeout, _MAX_STOP_SECONDS))

    def turn(self) -> float:
        """Call the URL if steps were logged since the last call; return the seconds to wait."""
        every = self._channel.every_minutes * 60.0
        return every if self.beat() else min(every, _RETRY_SECONDS)

    @never_raises(lambda: False)
    def beat(self) -> bool:
        """Call the URL if new steps were logged; return whether the call succeeded."""
        steps, name = self._steps(), self._channel.name
        if steps == self._reported:
            return False
        try:
            self._channel.beat()
        except NotDelivered as failure:
            if not self._is_failing:
                self._say(f"{name}: heartbeat failed ({failure.reason}); retrying every minute.")
            self._is_failing = True
            return False
        if self._is_failing:
            self._say(f"{name}: heartbeat works again.")
        self._reported, self._is_failing = steps, False
        return True

    def _failed(self, _: str, message: str) -> None:
        """Report the first error that `never_raises` caught."""
        if not self._has_failed:
            self._has_failed = True
            self._say(message)

    def _work(self) -> None:
        pause = min(self._channel.every_minutes * 60.0, _RETRY_SECONDS)
        while not self._stopping.wait(pause):
            pause = self.turn()
