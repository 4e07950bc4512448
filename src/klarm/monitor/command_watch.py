"""Passes commands to a live run: a thread reads them, and `log` applies them with the next step."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from klarm.boundary import never_raises
from klarm.journal import COMMANDS_FILE, damage_at, read_commands
from klarm.notices import Notices, ReportsFailures
from klarm.types import Command

_INTERVAL_SECONDS = 1.0


class CommandWatch(ReportsFailures):
    """Checks the file of commands beside a journal once per second, on a thread of its own.

    Training never waits for it: a file system that hangs blocks only this thread.
    """

    def __init__(
        self,
        folder: Path,
        hand_over: Callable[[Command], None],
        notices: Notices,
        *,
        applied: Collection[str] = (),
        interval_seconds: float = _INTERVAL_SECONDS,
    ) -> None:
        """Prepare to call `hand_over` with commands, except those whose keys are in `applied`."""
        self._folder = folder.absolute()  # the script may change its directory
        self._hand_over = hand_over
        self.notices = notices
        self._known = set(applied)
        self._interval = interval_seconds
        self._read_to = 0  # the offset after the last command that was read
        self._size = 0  # the size of the file when it was last read
        self._has_damage = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="klarm-commands", daemon=True)

    def start(self) -> None:
        """Hand over the commands that exist, then continue on a thread."""
        self.look()
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be started, or Python is shutting down
            self.notices.warn("no thread can be started: `klarm close` does not reach this run")

    def stop(self, timeout: float) -> None:
        """Check once more, then stop."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    @never_raises(lambda: None)
    def look(self) -> None:
        """Hand over the commands written since the last call."""
        try:
            size = os.path.getsize(self._folder / COMMANDS_FILE)  # noqa: PTH202
        except OSError:  # the file does not exist yet, or the disk does not respond
            return
        if size == self._size:
            return
        for read_to, command in read_commands(self._folder, self._read_to, self._on_damage):
            self._read_to = read_to
            if command.key not in self._known:
                self._known.add(command.key)
                self._hand_over(command)
        self._size = size  # set last, so that a failed read is retried

    def _on_damage(self, offset: int) -> None:
        if not self._has_damage:
            self._has_damage = True
            self.notices.warn(damage_at(offset))

    def _work(self) -> None:
        while not self._stopping.wait(self._interval):
            self.look()
        self.look()
