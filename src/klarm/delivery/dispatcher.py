"""The dispatcher: the threads that deliver a run's events, one per channel.

Each channel has a thread of its own, because a service that hangs or answers one byte per minute
must not delay the others. The threads start with the first event, never use objects of the training
thread, and end with the process.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence

from klarm import boundary
from klarm.delivery.outbox import Outbox
from klarm.delivery.outcomes import Again
from klarm.delivery.outlook import LIVE, Outlook
from klarm.delivery.routes import Route, Run, Writer
from klarm.delivery.worker import Worker
from klarm.types import Event

# Delivery competes with training for the GIL, and drawing a picture takes a while. After each turn,
# a thread therefore pauses for 10 times as long as it worked.
_REST_FACTOR, _MAX_REST_SECONDS = 10.0, 3.0
# Many services accept only about one message per second.
_MIN_REST_AFTER_MESSAGE_SECONDS = 0.25
_NO_RETRIES = "not retrying now"


class Delivery:
    """Delivers the events of one run. The monitor calls it with each event; it never blocks.

    - `behind`: the journal may hold events that earlier processes did not send; they go first.
    - `again`: which of the messages that channels rejected earlier are sent again.
    - `once`: channels that get a single attempt; the rest is left to a later process.
    - `outlook`: how messages describe when the other channels are retried.
    - `commands_watched`: the run itself reports damage in the file of commands.
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
        self._finishing = threading.Event()
        self._threads_ended = 0
        self._ending = threading.Lock()
        _deliveries.add(self)

    def __call__(self, event: Event) -> None:
        """Queue an event, which the journal already has, for delivery."""
        if os.getpid() != self._pid:
            return
        for worker in self._workers:
            worker.put(event)
        if len(self._threads) < len(self._workers):
            self.start()

    def start(self) -> None:
        """Start the threads: with the first event, or earlier to send pending ones."""
        for worker in self._workers:
            if worker.name not in self._threads:
                thread = threading.Thread(
                    target=self._work, args=(worker,), name=f"klarm-{worker.name}", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # no thread can be started, or Python is shutting down
                    return
                self._threads[worker.name] = thread

    def finish(self, timeout: float) -> bool:
        """Deliver for up to `timeout` seconds; return whether nothing is pending or rejected."""
        if os.getpid() != self._pid or self._ends_at is not None:
            return False
        self._ends_at = time.monotonic() + timeout
        self._finishing.set()
        for worker in self._workers:
            worker.pending.wake()
        for worker in self._workers:
            if worker.pending and worker.name not in self._threads:
                # From Python 3.12 on, no thread starts once a script has ended: the first event of
                # a run that has just crashed is sent from here.
                self._threads[worker.name] = threading.current_thread()
                self._work(worker)
        for thread in list(self._threads.values()):
            if thread is threading.current_thread():
                continue
            thread.join(max(0.0, self._ends_at - time.monotonic()))
        with self._ending:
            if self._threads_ended == len(self._threads):
                self._outbox.release()
            else:
                self._record_health()
        return not self.left and not any(self._outbox.rejections(w.name) for w in self._workers)

    @property
    def is_ours(self) -> bool:
        """Whether this process delivers the run; it claims the run if no other process does."""
        return self._outbox.claim()

    @property
    def sent(self) -> dict[str, int]:
        """How many messages each channel accepted; channels without any are left out."""
        return {worker.name: worker.sent for worker in self._workers if worker.sent}

    @property
    def left(self) -> list[str]:
        """The channels for which messages are, or may be, pending."""
        if os.getpid() != self._pid:
            return []
        return [worker.name for worker in self._workers if worker.pending]

    @property
    def held(self) -> list[str]:
        """The channels from which a silence holds messages back."""
        if os.getpid() != self._pid:
            return []
        return [worker.name for worker in self._workers if worker.held]

    @property
    def rejected(self) -> list[str]:
        """The channels that rejected a message and have accepted nothing of its incident since."""
        if os.getpid() != self._pid:
            return []
        return [
            worker.name
            for worker in self._workers
            if worker.has_rejected and self._outbox.rejections(worker.name)
        ]

    def _work(self, worker: Worker) -> None:
        """Deliver until the end. This is the one place that catches every failure of delivery."""
        has_released = False
        while True:
            sent, worked = worker.sent, time.thread_time()
            try:
                pause = worker.turn()
            except Exception as error:
                if boundary.raise_failures:
                    raise
                pause = worker.on_internal_error(error)
            ends_at = self._ends_at
            if ends_at is not None and not has_released:
                # A silence may have ended since the last check, and there is no later one.
                has_released = True
                worker.pending.release_held()
                continue
            if ends_at is not None and (
                pause is None
                or not worker.pending  # what remains is held back by a silence
                or worker.is_closed
                or time.monotonic() + pause > ends_at
            ):
                break
            if worker.retry.is_failing and worker.name in self._once:
                break
            rest = min(_REST_FACTOR * (time.thread_time() - worked), _MAX_REST_SECONDS)
            if worker.sent > sent:
                rest = max(rest, _MIN_REST_AFTER_MESSAGE_SECONDS)
            self._finishing.wait(rest)
            worker.pending.wait(pause)
        with self._ending:
            self._threads_ended += 1
            if self._threads_ended == len(self._threads):
                self._record_health()
                self._outbox.release()

    def _record_health(self) -> None:
        """Record the state of the channels, if this process has changed it, or should have."""
        if any(w.sent or w.has_rejected or (w.pending and self._is_live) for w in self._workers):
            self._outbox.record_health([worker.standing() for worker in self._workers])

    def _abandon(self) -> None:
        self._outbox.abandon()


_deliveries: weakref.WeakSet[Delivery] = weakref.WeakSet()


def _abandon_after_fork() -> None:
    for delivery in _deliveries:
        delivery._abandon()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_abandon_after_fork)
