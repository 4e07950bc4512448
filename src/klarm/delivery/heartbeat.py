"""The heartbeat of a run: a thread that calls an address while steps are logged, and only then.

Training that hangs under a live process is noticed, too: nothing calls the address any more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from klarm.boundary import never_raises
from klarm.channels.base import NotDelivered
from klarm.channels.heartbeat import HeartbeatChannel

_LOOK_AGAIN_SECONDS = 60.0  # after a failure, and while nothing is logged
_MAX_FAREWELL_SECONDS = 1.0


class Heartbeat:
    """Calls the address of one channel. `steps` says how many steps were logged so far."""

    def __init__(
        self, channel: HeartbeatChannel, steps: Callable[[], int], say: Callable[[str], None]
    ) -> None:
        self._channel = channel
        self._steps = steps
        self._say = say
        self._told = 0  # how many steps there were at the last call
        self._is_failing = False
        self._has_failed = False
        self._pid = os.getpid()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._work, name=f"klarm-{channel.name or channel.type}", daemon=True
        )

    def start(self) -> None:
        """Begin, on a thread of its own."""
        try:
            self._thread.start()
        except RuntimeError:  # no more threads to be had, or Python is about to end
            self._say(f"{self._channel.name}: no thread can be started, so there is no heartbeat.")

    def stop(self, timeout: float) -> None:
        """End; a call under way is waited for, but not for long."""
        self._stopping.set()
        if self._thread.is_alive() and os.getpid() == self._pid:
            self._thread.join(min(timeout, _MAX_FAREWELL_SECONDS))

    def turn(self) -> float:
        """Call the address if steps were logged since the last time; return how long to wait."""
        every = self._channel.every_minutes * 60.0
        return every if self.beat() else min(every, _LOOK_AGAIN_SECONDS)

    @never_raises(lambda: False)
    def beat(self) -> bool:
        """Call the address if there is a reason to; return whether that was done."""
        steps, name = self._steps(), self._channel.name
        if steps == self._told:
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
        self._told, self._is_failing = steps, False
        return True

    def _failed(self, _: str, message: str) -> None:
        """Say once what `never_raises` kept away."""
        if not self._has_failed:
            self._has_failed = True
            self._say(message)

    def _work(self) -> None:
        pause = min(self._channel.every_minutes * 60.0, _LOOK_AGAIN_SECONDS)
        while not self._stopping.wait(pause):
            pause = self.turn()
