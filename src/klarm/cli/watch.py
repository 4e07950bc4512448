"""A watch: passes the rows of a followed log to a monitor, until somebody stops it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from klarm.api import NotRecordedError
from klarm.cli.stopping import Stopping
from klarm.journal import DETACHED, Source
from klarm.metrics import Binding
from klarm.monitor import Ending, Monitor
from klarm.sources import LogRow, SourceError
from klarm.sources.follow import Follower


class Watch:
    """Passes the rows of a log to a monitor, which is created with the first new row."""

    def __init__(
        self,
        follower: Follower,
        make_monitor: Callable[[], Monitor],
        checked: Callable[[Iterator[LogRow | Source]], Iterator[LogRow | Source]] = iter,
        on_waiting: Callable[[], None] = lambda: None,
        on_read: Callable[[], None] = lambda: None,
        *,
        once: bool = False,
    ) -> None:
        """Prepare to watch. `checked` yields the rows to log, or raises SourceError.

        `on_waiting` is called if the log has no new row at the start, and `on_read` each time that
        all its rows were read. With `once`, only what the log already holds is read, and training
        may go on.
        """
        self._once = once
        self.follower = follower
        self._checked = checked
        self._on_waiting = on_waiting
        self._on_read = on_read
        self.any_new = False  # row since the start
        self._make_monitor = make_monitor
        self._monitor: Monitor | None = None

    def until(
        self,
        stopping: Stopping,
        *,
        poll_seconds: float,
        idle_seconds: float | None,
        clock: Callable[[], float] = time.monotonic,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """Watch until asked to stop, or until nothing was added for a while; then print a summary.

        `ended` returns whether the log is complete.
        """
        is_over, is_first = False, True
        try:
            since = clock()
            while not stopping.is_set():
                is_last = ended()  # asked before reading, so that the last rows are not missed
                any_new = self.poll(stopping)
                if is_first and not any_new:
                    self._on_waiting()
                is_first = False
                if any_new:
                    since = clock()
                elif is_last or (idle_seconds is not None and clock() - since >= idle_seconds):
                    is_over = True
                    break
                stopping.wait(poll_seconds)
        finally:
            if self._monitor is not None:
                # If somebody stopped klarm, or it failed, training goes on.
                if self._once or not is_over:
                    self._monitor.end_as(Ending(DETACHED, once=is_over))
                self._monitor.finish()

    @property
    def binding(self) -> Binding:
        """Which column is which metric, in the new rows or, if there are none, in the old ones."""
        return self.follower.binding if self._monitor is None else self._monitor.binding

    def poll(self, stopping: Stopping) -> bool:
        """Log the new rows; return whether there were any."""
        any_new = False
        try:
            for row in self._checked(self.follower.poll()):
                any_new = self.any_new = True
                monitor = self._monitor = self._monitor or self._started()
                if isinstance(row, Source):
                    monitor._source(row)
                else:
                    monitor.log(row.metrics, row.step)
                if stopping.is_set():
                    break
        finally:
            self._on_read()
        return any_new

    def _started(self) -> Monitor:
        try:
            monitor = self._make_monitor()
        except NotRecordedError as error:
            raise SourceError(f"{self.follower.path} is not followed: {error}") from None
        if not monitor.recorded:  # klarm is switched off, or this is not rank 0
            monitor.finish()
            raise SourceError(
                f"{self.follower.path} is not followed: run {monitor.run} cannot be recorded"
            )
        return monitor
