"""The dispatcher: the threads that deliver a run's events, one per channel.

Each channel has a thread of its own, because a service that hangs or answers a byte a minute must
not delay the others. The threads start with the first event, never touch what training holds, and
end with the process.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence

from klarm import boundary
from klarm.delivery.outbox import Again, Outbox
from klarm.delivery.outlook import LIVE, Outlook
from klarm.delivery.routes import Route, Run, Writer
from klarm.delivery.worker import Worker
from klarm.types import Event

# Delivering takes turns with training on the interpreter. So a thread rests for so many times what
# it has worked, a picture being some work; and between two messages, of which many services take
# one a second.
_REST, _MAX_REST_SECONDS = 10.0, 3.0
_BETWEEN_MESSAGES_SECONDS = 0.25
_NO_RETRIES = "not retrying now"


class Delivery:
    """Delivers the events of one run. Called with an event by the monitor, it never waits.

    With `behind`, the journal may hold events that earlier processes did not get to send: those
    are sent first; `again` says which of those that channels have rejected. Channels in `once` get
    a single try, and the rest is left to a later process; `outlook` is what is said of the others.
    With `commands_watched`, the run itself reports damage in the file of commands.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        write: Writer,
        run: Run,
        say: Callable[[str], None],
        *,
        behind: bool = False,
        again: Again = "none",
        once: Collection[str] = (),
        outlook: Outlook = LIVE,
        commands_watched: bool = False,
    ) -> None:
        self._outbox = Outbox(run.folder, again=again, say=say, commands_watched=commands_watched)
        self._is_live = commands_watched
        self._once = frozenset(once)
        self._workers = [
            Worker(
                route,
                self._outbox,
                write,
                run,
                say,
                behind=behind,
                outlook=outlook._replace(failing=_NO_RETRIES)
                if route.channel.name in self._once
                else outlook,
            )
            for route in routes
        ]
        self._pid = os.getpid()
        self._threads: dict[str, threading.Thread] = {}
        self._ends_at: float | None = None
        self._hurry = threading.Event()
        self._left = 0  # threads that came to their end
        self._leaving = threading.Lock()
        _deliveries.add(self)

    def __call__(self, event: Event) -> None:
        """Have an event delivered that the journal has."""
        if os.getpid() != self._pid:
            return
        for worker in self._workers:
            worker.put(event)
        if len(self._threads) < len(self._workers):
            self.start()

    def start(self) -> None:
        """Start the threads: with the first event, or before it to send what is pending."""
        for worker in self._workers:
            if worker.name not in self._threads:
                thread = threading.Thread(
                    target=self._work, args=(worker,), name=f"klarm-{worker.name}", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # no more to be had, or Python is about to end
                    return
                self._threads[worker.name] = thread

    def finish(self, timeout: float) -> bool:
        """Deliver what can be in so many seconds; return whether nothing is left or rejected."""
        if os.getpid() != self._pid or self._ends_at is not None:
            return False
        self._ends_at = time.monotonic() + timeout
        self._hurry.set()
        for worker in self._workers:
            worker.pending.wake()
        for thread in list(self._threads.values()):
            thread.join(max(0.0, self._ends_at - time.monotonic()))
        with self._leaving:
            if self._left == len(self._threads):
                self._outbox.release()
            else:
                self._record_health()
        return not self.left and not any(self._outbox.rejections(w.name) for w in self._workers)

    @property
    def is_ours(self) -> bool:
        """Whether this process is the one that delivers the run; it tries to become it."""
        return self._outbox.claim()

    @property
    def sent(self) -> dict[str, int]:
        """How many messages each channel took, of those that took any."""
        return {worker.name: worker.sent for worker in self._workers if worker.sent}

    @property
    def left(self) -> list[str]:
        """The channels that have, or may have, something left to be sent."""
        if os.getpid() != self._pid:
            return []
        return [worker.name for worker in self._workers if worker.pending]

    @property
    def rejected(self) -> list[str]:
        """The channels that rejected something, and took neither it nor what followed it since."""
        if os.getpid() != self._pid:
            return []
        return [
            worker.name
            for worker in self._workers
            if worker.has_rejected and self._outbox.rejections(worker.name)
        ]

    def _work(self, worker: Worker) -> None:
        """Go on until the end: the one place where failures of delivery stay."""
        while True:
            sent, worked = worker.sent, time.thread_time()
            try:
                pause = worker.turn()
            except Exception as error:
                if boundary.raise_failures:
                    raise
                pause = worker.on_internal_error(error)
            ends_at = self._ends_at
            if ends_at is not None and (
                pause is None
                or not worker.pending  # or a silence holds it back
                or worker.is_closed
                or time.monotonic() + pause > ends_at
            ):
                break
            if worker.retry.is_failing and worker.name in self._once:
                break
            rest = min(_REST * (time.thread_time() - worked), _MAX_REST_SECONDS)
            if worker.sent > sent:
                rest = max(rest, _BETWEEN_MESSAGES_SECONDS)
            self._hurry.wait(rest)
            worker.pending.wait(pause)
        with self._leaving:
            self._left += 1
            if self._left == len(self._threads):
                self._record_health()
                self._outbox.release()

    def _record_health(self) -> None:
        """Note how the channels stand, if this process has changed that, or should have."""
        if any(w.sent or w.has_rejected or (w.pending and self._is_live) for w in self._workers):
            self._outbox.record_health([worker.standing() for worker in self._workers])

    def _fall_silent(self) -> None:
        self._outbox.abandon()


_deliveries: weakref.WeakSet[Delivery] = weakref.WeakSet()


def _silence_after_fork() -> None:
    for delivery in _deliveries:
        delivery._fall_silent()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_silence_after_fork)
