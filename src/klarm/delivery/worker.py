"""A worker: delivers to one channel, one message per turn, in order and without duplicates."""

from __future__ import annotations

import time
from collections.abc import Callable

from klarm.delivery.log import Standing
from klarm.delivery.outbox import Outbox
from klarm.delivery.outlook import LIVE, Outlook
from klarm.delivery.pending import Pending
from klarm.delivery.rejected import Rejected
from klarm.delivery.repeats import Repeats
from klarm.delivery.retry import Retry, own_random
from klarm.delivery.routes import Route, Run, Writer
from klarm.delivery.send import Result, Sender
from klarm.delivery.silences import LOOK_AGAIN_SECONDS, HeldBack, judge
from klarm.types import Event

# How often to check whether another process has stopped delivering.
_CLAIM_RETRY_SECONDS = 15.0


class Worker:
    """Connects the stages: pending events, silences, retries, reminders and sending.

    `put` is for the training thread; everything else is for the thread that calls `turn`.
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
        jitter: Callable[[], float] = own_random,
    ) -> None:
        self.name = route.channel.name
        self.sent = 0  # messages
        self.has_rejected = False
        self.retry = Retry(monotonic=monotonic, jitter=jitter)
        self.held = HeldBack()
        self.rejected = Rejected()
        self.repeats = Repeats(route.repeat_after * 3600.0, route.repeat_severity)
        self._repeats_unread = behind
        self.pending = Pending(self.name, outbox, self.held, behind=behind)
        self._sender = Sender(route, outbox, write, run, say)
        self._outbox, self._outcomes = outbox, outbox.outcomes
        self._say = say
        self._outlook = outlook
        self._clock = clock
        self._monotonic = monotonic
        self._incident = ""  # the id of the incident that is being sent
        self._said: set[str] = set()

    def put(self, event: Event) -> None:
        """Add an event, which the journal already has."""
        self.pending.put(event)

    def standing(self) -> Standing:
        """Return the current state of the channel."""
        return Standing(
            channel=self.name,
            last_sent=self._outcomes.last_sent(self.name),
            pending=bool(self.pending),
            rejected=self._outbox.rejections(self.name),
            dropped=self.pending.is_lost,
        )

    @property
    def is_closed(self) -> bool:
        """Whether sending is paused until somebody may have repaired the channel."""
        return self.retry.is_rejecting and self.retry.seconds_to_wait > 0

    def turn(self) -> float | None:
        """Send at most one message that is due; return the seconds until the next turn.

        Returns None if there is nothing to do before the next event.
        """
        now = self._monotonic()
        self.pending.collect(now)
        if self.retry.seconds_to_wait:
            return self.retry.seconds_to_wait
        self.pending.catch_up(now)
        if self.pending.is_lost:
            self._say_once(
                "lost", "The run is not recorded, so events that did not fit into memory are lost."
            )
        for events in self.rejected.take(now, self.pending.turns):
            self._outcomes.retry(self.name, events)
            self.pending.turns.add_recorded(events)
        if not self.pending.turns and (seconds := self._seconds_to_reminder()) != 0.0:
            waits = (
                self.pending.seconds_to_wait(now),
                self.rejected.seconds_to_wait(now),
                seconds,
            )
            return min((wait for wait in waits if wait is not None), default=None)
        if not self._outbox.claim():
            self._outbox.say_once(
                "another process delivers this run: this one waits until that process ends."
            )
            return _CLAIM_RETRY_SECONDS
        self._outbox.refresh()  # the process that delivered until now may have sent the events
        if self.pending.turns:
            self._deliver_next(now)
        else:
            self._remind()
        return self.retry.seconds_to_wait

    def on_internal_error(self, error: Exception) -> float:
        """Recover from an error inside klarm: back off, and try another incident first."""
        self.pending.turns.put_back(self._incident)
        self._fail(f"{type(error).__name__} inside klarm", None)
        return self.retry.seconds_to_wait

    def _deliver_next(self, now: float) -> None:
        waiting, attempts = self.pending.turns.next()
        self._incident = waiting[0].id
        events = [event for event in waiting if not self._outcomes.is_settled(self.name, event)]
        if not events:
            self._keep_rejected([e for e in waiting if self._outcomes.is_rejected(self.name, e)])
        if not events or self._is_done(events, attempts, now):
            self.pending.turns.remove(self._incident)
        else:
            self.pending.turns.put_back(self._incident)

    def _is_done(self, events: list[Event], attempts: int, now: float) -> bool:
        """Try to deliver the events of an incident; return whether they are no longer pending."""
        self.repeats.note(events)
        verdict = judge(
            events,
            notified=self._outcomes.receipt(self.name, self._incident) is not None,
            acknowledged=self._outbox.acknowledged,
            silences=self._outbox.in_force(self._clock()),
        )
        if verdict == "wait" or self.held.precedes(events):
            self.held.add(events, now)
            return True
        if verdict != "send":
            self._sender.record(events, verdict)
            self.rejected.forget(self._incident)
            return True
        result = self._sender.send(events, attempts)
        if result.outcome == "failed":
            self._fail(result.reason, result.after_seconds)
            return False
        if result.outcome == "rejected":
            return self._reject(events, attempts, result)
        if result.outcome == "sent":
            self.sent += 1
            if self.retry.is_rejecting or self.retry.is_failing:
                self._say(self._outlook.works_again(self.name))
                self.rejected.hurry()
            self.retry.succeeded()
        return True

    def _next_reminder(self) -> tuple[float, Event] | None:
        if self._repeats_unread:
            self._repeats_unread = False
            self.repeats.note(event for _, _, event in self._outbox.recorded())
        return self.repeats.next(
            self._clock(),
            lambda incident: self._outcomes.sent_at(self.name, incident),
        )

    def _seconds_to_reminder(self) -> float | None:
        due = self._next_reminder()
        return None if due is None else due[0]

    def _remind(self) -> None:
        """Send a reminder of an open incident, unless somebody has acknowledged it."""
        due = self._next_reminder()
        if due is None or due[0]:
            return
        event, now = due[1], self._clock()
        if event.id in self._outbox.acknowledged:  # it may be taken back: look again later
            self.repeats.put_off(event.id, now)
            return
        verdict = judge(
            [event], notified=False, acknowledged=(), silences=self._outbox.in_force(now)
        )
        if verdict != "send":
            self.repeats.put_off(event.id, now, LOOK_AGAIN_SECONDS)
            return
        repeat = self._outcomes.repeats(self.name, event.id) + 1
        result = self._sender.send([event], 1, repeat=repeat, now=now)
        if result.outcome == "failed":
            self._fail(result.reason, result.after_seconds)
        elif result.outcome == "sent":
            self.sent += 1
            self.retry.succeeded()
        else:
            self.repeats.put_off(event.id, now)

    def _fail(self, reason: str, retry_after: float | None) -> None:
        if not self.retry.is_failing:
            self._say(self._outlook.failed(self.name, reason))
        self.retry.failed(retry_after)

    def _reject(self, events: list[Event], attempts: int, result: Result) -> bool:
        """Postpone a message, unless the channel is at fault: then the message stays pending."""
        if self.retry.is_rejecting:
            self.retry.rejected()
            return False
        self._sender.record(events, "refused", attempts=attempts, reason=result.reason)
        self._keep_rejected(events)
        self.has_rejected = True
        self._say_once("rejected", self._outlook.rejected(self.name, result.reason))
        self.retry.rejected(counts=not self._outcomes.was_rejected(self.name, events))
        if self.retry.is_rejecting:
            self._say(self._outlook.rejected_in_a_row(self.name, self.retry.rejections))
        return True

    def _keep_rejected(self, events: list[Event]) -> None:
        """Keep rejected events for a retry, including those rejected for another process."""
        over = bool(events) and events[-1].event == "resolved"
        pause = self._outcomes.seconds_to_retry(self.name, self._incident, over=over)
        if events and pause is not None:
            self.rejected.add(events, self._monotonic(), pause)

    def _say_once(self, about: str, message: str) -> None:
        if about not in self._said:
            self._said.add(about)
            self._say(message)
