"""When a monitor ignores calls: after `finish`, and in a child forked from the training process."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import ParamSpec

from klarm.journal import Journal
from klarm.notices import ReportsFailures

_P = ParamSpec("_P")

AFTER_FINISH = "log was called after finish: the run is no longer watched"
_AFTER_FORK = (
    "this process was forked from the one that watches the run, so its calls are ignored; "
    "to watch here, call klarm.init in this process"
)


class CanFallSilent(ReportsFailures):
    """The part of a monitor that decides whether a call has any effect."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.RLock()
        self._silent_because = ""  # empty as long as calls have an effect
        _in_this_process.add(self)

    def _unless_silent(
        self, call: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs
    ) -> None:
        """Call a function under the lock. Another thread may have finished the run meanwhile."""
        with self._lock:
            if not self._silent_because:
                call(*args, **kwargs)

    def _fall_silent(self) -> None:
        """Leave the run to the parent process, which keeps the journal."""
        if not self._silent_because:
            self._journal.abandon()
        self._silent_because = _AFTER_FORK


_in_this_process: weakref.WeakSet[CanFallSilent] = weakref.WeakSet()


def _silence_after_fork() -> None:
    for monitor in _in_this_process:
        monitor._fall_silent()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_silence_after_fork)
