"""Send: writes the message of an incident's pending events, sends it, and records the outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from klarm.channels.base import NotDelivered
from klarm.channels.message import reminder_of
from klarm.delivery.log import FILE_NAME, Outcome, message_id_of
from klarm.delivery.outbox import Outbox
from klarm.delivery.routes import Route, Run, Writer, is_for
from klarm.types import Event


class Result(NamedTuple):
    """The result of an attempt to send."""

    outcome: Literal["sent", "passed_over", "failed", "rejected"]
    reason: str = ""
    after_seconds: float | None = None  # the pause that the service asked for


class Sender:
    """Sends messages to one channel. The worker handles retries and the order."""

    def __init__(
        self, route: Route, outbox: Outbox, write: Writer, run: Run, say: Callable[[str], None]
    ) -> None:
        self.channel = route.channel.name
        self._route = route
        self._outbox = outbox
        self._write = write
        self._run = run
        self._say = say
        self._has_warned = False

    def send(
        self, events: Sequence[Event], attempts: int, *, repeat: int = 0, now: float = 0.0
    ) -> Result:
        """Send the events of one incident as one message; `repeat` is the number of the reminder.

        A rejection is not recorded here, because the channel may be at fault.
        """
        outbox, incident = self._outbox, events[0].id
        receipt = outbox.outcomes.receipt(self.channel, incident)
        known_to = ", ".join(outbox.acknowledged.get(incident, ()))
        message = self._write(events, self._run, acknowledged_by=known_to)
        if repeat:
            message = reminder_of(message, repeat, now)
        message = replace(message, message_id=message_id_of(events, repeat))
        if not is_for(self._route, message, notified=receipt is not None):
            outbox.outcomes.pass_over(self.channel, events)
            return Result("passed_over")
        try:
            new_receipt = self._route.channel.send(message, receipt or {})
        except NotDelivered as failure:
            outcome: Literal["failed", "rejected"] = "failed" if failure.retry else "rejected"
            return Result(outcome, failure.reason, failure.after_seconds)
        self.record(events, "sent", attempts=attempts, receipt=new_receipt, repeat=repeat)
        return Result("sent")

    def record(
        self,
        events: Sequence[Event],
        outcome: Outcome,
        *,
        attempts: int = 0,
        reason: str = "",
        receipt: Mapping[str, str] | None = None,
        repeat: int = 0,
    ) -> None:
        """Record the outcome of events; report once if it cannot be written."""
        was_tried = outcome in ("sent", "refused")
        try:
            self._outbox.settle(
                self.channel,
                events,
                outcome,
                attempts=attempts,
                reason=reason,
                receipt=receipt,
                repeat=repeat,
                message=message_id_of(events, repeat) if was_tried else "",
            )
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                self._say(
                    f"cannot write {FILE_NAME} ({error.strerror}): after a restart, "
                    f"{self.channel} may be notified twice."
                )
