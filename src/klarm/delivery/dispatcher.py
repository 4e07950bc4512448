"""Delivery: the threads that tell people of a run's events, one a channel.

A thread a channel, and not one for all: a service that hangs, or answers a byte a minute, must not
keep another from being told, and there are as many threads as channels. They start with the first
event, never touch what training holds, and are gone with the process.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence

from klarm import boundary
from klarm.delivery.lane import Lane
from klarm.delivery.outbox import Again, Outbox
from klarm.delivery.outlook import LIVE, Outlook
from klarm.delivery.routes import Route, Run, Writer
from klarm.types import Event

# Delivering takes turns with training on the interpreter. So a thread rests for so many times what
# it has worked, a picture being some work; and between two messages, of which many services take
# one a second.
_REST, _LONGEST_REST_SECONDS = 10.0, 3.0
_BETWEEN_MESSAGES_SECONDS = 0.25
_NO_RETRIES = "it is not tried again now"


class Delivery:
    """Delivers the events of one run. Called with an event by the monitor, it never waits.

    With `behind`, the journal may hold events that earlier processes did not get to send: those
    are sent first; `again` says which of those that channels have refused. Channels in `once` are
    left after their first failure, for a later process; `outlook` is what is said of the others.
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
    ) -> None:
        self._outbox = Outbox(run.folder, again=again)
        self._once = frozenset(once)
        self._lanes = [
            Lane(
                route,
                self._outbox,
                write,
                run,
                say,
                behind=behind,
                outlook=outlook._replace(unreached=_NO_RETRIES)
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
        for lane in self._lanes:
            lane.put(event)
        if len(self._threads) < len(self._lanes):
            self.start()

    def start(self) -> None:
        """Start the threads: with the first event, or before it to send what is owed."""
        for lane in self._lanes:
            if lane.name not in self._threads:
                thread = threading.Thread(
                    target=self._work, args=(lane,), name=f"klarm-{lane.name}", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # no more to be had, or Python is about to end
                    return
                self._threads[lane.name] = thread

    def finish(self, timeout: float) -> bool:
        """Deliver what can be in so many seconds; return whether all was, and nothing refused."""
        if os.getpid() != self._pid or self._ends_at is not None:
            return False
        self._ends_at = time.monotonic() + timeout
        self._hurry.set()
        for lane in self._lanes:
            lane.wake()
        for thread in list(self._threads.values()):
            thread.join(max(0.0, self._ends_at - time.monotonic()))
        with self._leaving:
            if self._left == len(self._threads):
                self._outbox.release()
        return not self.left and not any(lane.has_refused for lane in self._lanes)

    @property
    def is_ours(self) -> bool:
        """Whether this process is the one that delivers the run; it tries to become it."""
        return self._outbox.claim()

    @property
    def sent(self) -> dict[str, int]:
        """How many messages each channel took, of those that took any."""
        return {lane.name: lane.sent for lane in self._lanes if lane.sent}

    @property
    def left(self) -> list[str]:
        """The channels that could not be told everything, or may not have been."""
        if os.getpid() != self._pid:
            return []
        return [lane.name for lane in self._lanes if lane.owes]

    @property
    def refused(self) -> list[str]:
        """The channels that refused something and did not take it, or what followed it, later."""
        if os.getpid() != self._pid:
            return []
        return [
            lane.name
            for lane in self._lanes
            if lane.has_refused and self._outbox.refusals(lane.name)
        ]

    def _work(self, lane: Lane) -> None:
        """Go on until the end: the one place where failures of delivery stay."""
        while True:
            sent, worked = lane.sent, time.thread_time()
            try:
                pause = lane.turn()
            except Exception as error:
                if boundary.raise_failures:
                    raise
                pause = lane.stumble(error)
            ends_at = self._ends_at
            if ends_at is not None and (
                pause is None
                or not lane.owes  # or a silence holds it back
                or lane.is_refusing
                or time.monotonic() + pause > ends_at
            ):
                break
            if lane.is_failing and lane.name in self._once:
                break
            rest = min(_REST * (time.thread_time() - worked), _LONGEST_REST_SECONDS)
            if lane.sent > sent:
                rest = max(rest, _BETWEEN_MESSAGES_SECONDS)
            self._hurry.wait(rest)
            lane.wait(pause)
        with self._leaving:
            self._left += 1
            if self._left == len(self._threads):
                self._outbox.release()

    def _fall_silent(self) -> None:
        self._outbox.abandon()


_deliveries: weakref.WeakSet[Delivery] = weakref.WeakSet()


def _silence_after_fork() -> None:
    for delivery in _deliveries:
        delivery._fall_silent()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_silence_after_fork)
