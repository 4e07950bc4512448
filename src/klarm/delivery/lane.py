"""A lane: the way of events to one channel. What is in it goes out in order, and once."""

from __future__ import annotations

import contextlib
import queue
import random
import time
from collections.abc import Callable, Mapping, Sequence

from klarm.channels.base import NotDelivered
from klarm.delivery.hand import Hand
from klarm.delivery.log import FILE_NAME, Outcome
from klarm.delivery.mutes import judge
from klarm.delivery.outbox import Key, Outbox, key_of
from klarm.delivery.outlook import LIVE, UNTIL_MENDED_SECONDS, Outlook
from klarm.delivery.routes import Route, Run, Writer, is_for, together
from klarm.types import Event

# Kept in memory for a channel; the journal has the others.
MOST_IN_HAND = 100
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 300.0
_LONGEST_WISH_SECONDS = 3_600.0  # of a service that asks for patience
_MOST_REFUSALS = 3  # in a row, after which the channel is at fault, and not the messages
# How often to look whether another process is done delivering, or a silence is over,
_LOOK_AGAIN_SECONDS = 15.0
# and whether an event that did not fit into memory is on disk.
_ON_DISK_SECONDS = 2.0


class Lane:
    """Delivers to one channel, a message a `turn`, on whichever thread calls that.

    `put` is for the training thread: it takes no lock and never waits. When there is no room, the
    lane is behind, and reads what it missed from the journal once it has sent what it has.
    """

    def __init__(
        self,
        route: Route,
        outbox: Outbox,
        write: Writer,
        run: Run,
        say: Callable[[str], None],
        *,
        behind: bool = False,
        outlook: Outlook = LIVE,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = route.channel.name
        self.sent = 0  # messages
        self.has_refused = False  # a message
        self._route = route
        self._outbox = outbox
        self._write = write
        self._run = run
        self._say = say
        self._outlook = outlook
        self._clock = clock
        self._monotonic = monotonic
        self._jitter = jitter
        self._inbox: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._wakes = 0
        self._unread = behind  # nothing of the journal was read yet
        self._behind = False
        self._missed: Key | None = None  # the last that did not fit,
        self._met: Key | None = None  # and the last such that was found in the journal
        self._start = 0  # nothing in the journal before this is owed
        self._hand = Hand()
        self._telling = 0  # of which incident
        self._held: set[Key] = set()  # by a silence
        self._failures = 0  # in a row
        self._refusals = 0  # in a row
        self._due = 0.0  # not before this
        self._held_until = 0.0
        self._look_at = 0.0  # into the journal, when behind
        self._said: set[str] = set()

    @property
    def owes(self) -> bool:
        """Whether there is, or may be, something left to send."""
        waiting = self._inbox.qsize() > self._wakes
        return self._unread or self._behind or bool(self._hand) or waiting

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to send did not reach anybody."""
        return self._failures > 0

    @property
    def is_refusing(self) -> bool:
        """Whether it refused so often that nothing is sent before somebody may have mended it."""
        return self._refusals >= _MOST_REFUSALS and self._monotonic() < self._due

    def put(self, event: Event) -> None:
        """Hand over an event that the journal has."""
        if self._behind or self._inbox.qsize() + self._hand.size >= MOST_IN_HAND:
            self._missed = key_of(event)
            self._behind = True
        else:
            self._inbox.put(event)

    def wake(self) -> None:
        """End the wait under way."""
        self._wakes += 1
        self._inbox.put(None)

    def wait(self, seconds: float | None) -> None:
        """Wait for an event, at most so long."""
        with contextlib.suppress(queue.Empty):
            self._take(self._inbox.get(timeout=seconds))

    def turn(self) -> float | None:
        """Do what is due, at most one message; return the seconds until the next turn.

        None if there is nothing left to do but to wait for an event.
        """
        now = self._monotonic()
        if self._unread:  # before any event of this process: order is kept
            self._read_journal(now)
            self._unread = False
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._inbox.get_nowait())
        if now < self._due:
            return self._due - now
        if self._hand.all_tried:
            self._catch_up(now)  # what keeps failing must not keep others waiting
        if not self._hand:
            times = [self._look_at] * self._behind + [self._held_until] * bool(self._held)
            return max(0.0, min(times) - now) if times else None
        if not self._outbox.claim():
            return _LOOK_AGAIN_SECONDS
        self._refresh()
        incident = self._telling = self._hand.first_in_line()
        attempts = self._hand.try_(incident)
        events = [e for e in self._hand[incident] if not self._outbox.is_settled(self.name, e)]
        done = not events or self._deliver(events, attempts, now)
        if done:
            self._hand.drop(incident)
        else:
            self._hand.put_back(incident)
        return max(0.0, self._due - now)

    def stumble(self, error: Exception) -> float:
        """Go on after a failure of our own: later, and with another incident first."""
        if self._telling in self._hand:
            self._hand.put_back(self._telling)
        return self._back_off(f"{type(error).__name__} inside klarm", None)

    def _take(self, event: Event | None) -> None:
        if event is None:
            self._wakes -= 1
            return
        self._hand.take(event)

    def _catch_up(self, now: float) -> None:
        """Take from the journal what did not fit into memory, and what a silence held back."""
        if self._held and now >= self._held_until:
            self._held.clear()
            self._behind = True
        elif not self._behind or now < self._look_at:
            return
        self._read_journal(now)

    def _refresh(self) -> None:
        try:
            self._outbox.refresh()
        except PermissionError as error:  # somebody else's file: better told twice than not at all
            self._say_once(
                f"cannot read {FILE_NAME} ({error.strerror}): {self.name} may be told again what "
                "it was told"
            )

    def _read_journal(self, now: float) -> None:
        self._refresh()
        missed = self._missed

        def wanted(event: Event) -> bool:
            key = key_of(event)
            if key == missed:
                self._met = key
            return key not in self._held

        owed = self._outbox.owed(self.name, self._start, MOST_IN_HAND, wanted)
        self._start = owed.start
        for event in owed.events:
            self._take(event)
        if not owed.all_read:
            self._behind = True
            return
        if missed is None or self._met == missed:
            self._behind = False  # from here on, events come through the inbox again
            if self._missed != missed:
                self._behind = True  # one more was missed meanwhile
        elif self._outbox.folder is None:
            self._behind = False
            self._say_once("the run is not recorded, so events that found no room are lost")
        if self._behind:
            self._look_at = now + _ON_DISK_SECONDS

    def _deliver(self, events: Sequence[Event], attempts: int, now: float) -> bool:
        """Send the events of an incident as one message; return whether they are done with."""
        outbox, incident = self._outbox, events[0].incident
        receipt = outbox.receipt(self.name, incident)
        verdict = judge(
            events,
            told=receipt is not None,
            acknowledged=outbox.acknowledged,
            silences=outbox.in_force(self._clock()),
        )
        if verdict == "wait":
            if not self._held:
                self._held_until = now + _LOOK_AGAIN_SECONDS
            self._held.update(key_of(event) for event in events)
            return True
        if verdict != "send":
            self._settle(events, verdict)
            return True
        known_to = ", ".join(outbox.acknowledged.get(incident, ()))
        message = self._write(together(events), self._run, acknowledged_by=known_to)
        if not is_for(self._route, message, told=receipt is not None):
            outbox.pass_over(self.name, events)
            return True
        try:
            new_receipt = self._route.channel.send(message, receipt or {})
        except NotDelivered as failure:
            if failure.retry:
                self._back_off(failure.reason, failure.after_seconds)
                return False
            if self._refusals >= _MOST_REFUSALS:  # nothing is wrong with the message: it stays owed
                self._due = now + UNTIL_MENDED_SECONDS
                return False
            self._settle(events, "refused", attempts=attempts, reason=failure.reason)
            self._refuse(failure.reason, now, anew=not outbox.was_refused(self.name, events))
            return True
        self.sent += 1
        self._settle(events, "sent", attempts=attempts, receipt=new_receipt)
        self._drop_overtaken(events[0])
        if self._refusals >= _MOST_REFUSALS:
            self._say(f"{self.name} takes messages again")
        elif self._failures:
            self._say(f"{self.name} is reached again")
        self._failures = self._refusals = 0
        return True

    def _drop_overtaken(self, told: Event) -> None:
        """Give up the ends of earlier incidents on a signal, where they would end this one."""
        if not self._route.channel.one_a_signal:
            return
        for incident in self._hand.ends_before(told):
            reason = f"incident {told.incident} was told before it"
            self._settle(self._hand[incident], "refused", reason=reason)
            self._hand.drop(incident)

    def _settle(
        self,
        events: Sequence[Event],
        outcome: Outcome,
        *,
        attempts: int = 0,
        reason: str = "",
        receipt: Mapping[str, str] | None = None,
    ) -> None:
        try:
            self._outbox.settle(
                self.name, events, outcome, attempts=attempts, reason=reason, receipt=receipt
            )
        except OSError as error:
            self._say_once(
                f"cannot write {FILE_NAME} ({error.strerror}): after a restart, {self.name} may be "
                "told again what it was told"
            )

    def _back_off(self, reason: str, wish: float | None) -> float:
        """Wait before the next message: longer every time, or as long as the service asks for."""
        if not self._failures:
            self._say(f"{self.name} was not reached ({reason}); {self._outlook.unreached}")
        pause = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 30), _LONGEST_PAUSE_SECONDS)
        pause *= 0.5 + 0.5 * self._jitter()  # runs that failed together must not return together
        if wish is not None:
            pause = max(pause, min(wish, _LONGEST_WISH_SECONDS))
        self._failures += 1
        self._due = self._monotonic() + pause
        return pause

    def _refuse(self, reason: str, now: float, *, anew: bool) -> None:
        """Note a refusal. One that repeats an earlier process's must not end what is new."""
        self.has_refused = True
        self._refusals += anew
        by_hand = ""
        if self._outlook.command:
            by_hand = f", and after the run `{self._outlook.command}` sends all it refused"
        self._say_once(
            f"{self.name} refuses messages ({reason}); the next start of the run tries once more "
            f"what is still open then{by_hand}"
        )
        if self._refusals >= _MOST_REFUSALS:
            self._due = now + UNTIL_MENDED_SECONDS
            self._say(
                f"{self.name} refused {self._refusals} in a row; {self._outlook.refusing}; "
                "mend it and check with `klarm test-alert`"
            )

    def _say_once(self, message: str) -> None:
        about = message.partition("(")[0]
        if about not in self._said:
            self._said.add(about)
            self._say(message)
