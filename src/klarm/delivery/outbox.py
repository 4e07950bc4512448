"""The outbox: the events of a run that have not been sent yet.

An event is written to the journal before it is sent, and to the deliveries afterwards. So an event
is pending, for this process and for any later one, if only the journal has it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec.structs import replace

from klarm.delivery import log as deliveries
from klarm.delivery.log import Delivered, Health, Key, Outcome, Standing, key_of
from klarm.delivery.rejected import Rejection
from klarm.delivery.silences import Orders, Silence
from klarm.journal import (
    COMMANDS_FILE,
    FILE_NAME,
    Claim,
    IncidentRecord,
    add_event,
    damage_at,
    derived_id,
    head_of,
    read_commands,
    recorded_events,
    steps_back,
)
from klarm.types import RINGING, Event, Severity

LOCK_NAME = "delivery.lock"

# Which messages that were rejected earlier are pending again at the start: none; those of open
# incidents whose pause is over; all of open incidents; all.
Again = Literal["none", "due", "open", "all"]
Place = tuple[str, str]  # the name of a channel, and the id of an incident


class Batch(NamedTuple):
    """Events to send, in order."""

    events: list[Event]
    start: int  # the offset of the journal from which to read next time
    all_read: bool  # False if the journal may hold more pending events


class Outbox:
    """The events that one process still has to send to the channels of a run.

    The outbox reads files, so the training thread must not use it. Without a folder, nothing is
    recorded, and deliveries are remembered only as long as the process lives.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        again: Again = "none",
        clock: Callable[[], float] = time.time,
        say: Callable[[str], None] = lambda _: None,
        commands_watched: bool = False,
    ) -> None:
        """Prepare to read. With `commands_watched`, another part reports damaged commands."""
        self.folder = folder.absolute() if folder is not None else None
        self._again = again
        self._clock = clock
        self._say = say
        self._lock = threading.Lock()  # between the threads of the channels; never while sending
        self._claim: Claim | None = None
        self._began: float | None = clock() if folder is None else None
        self._deliveries_to = self._commands_to = 0  # the offsets up to which they were read
        # The files whose damage was reported.
        self._damaged: set[str] = {COMMANDS_FILE} if commands_watched else set()
        self._said: set[str] = set()
        self._orders = Orders()
        self._settled: set[tuple[str, Key]] = set()  # with the name of the channel
        self._passed_over: set[tuple[str, Key]] = set()
        self._retried: set[tuple[str, Key]] = set()  # rejected, and automatically pending again
        self._over: set[str] | None = None  # ids of resolved incidents, read when first needed
        self._severities: dict[Key, Severity] | None = None  # read when first needed
        self._rejected: dict[Place, Rejection] = {}
        self._is_first_read = True
        self._receipts: dict[Place, Mapping[str, str]] = {}
        self._sent: dict[Place, tuple[float, int]] = {}  # the last time, and number of reminders

    def claim(self) -> bool:
        """Claim the delivery of this run; return False if another process delivers it."""
        with self._lock:
            if self.folder is not None and self._claim is None:
                self._claim = Claim.on(self.folder / LOCK_NAME)
                if self._claim is None:
                    return False
                if self._claim.doubt:  # sending twice is better than not sending
                    self._say(
                        f"{self._claim.doubt}: klarm cannot tell whether another process delivers "
                        "this run, and delivers it anyway. People may be notified twice."
                    )
            return True

    def release(self) -> None:
        """Let another process deliver."""
        with self._lock:
            if self._claim is not None:
                self._claim.release()
                self._claim = None

    def abandon(self) -> None:
        """Release the files in a forked child; the parent keeps its claim."""
        if self._claim is not None:
            self._claim.abandon()
            self._claim = None

    def refresh(self) -> None:
        """Read the deliveries and commands that other processes have written since."""
        if self.folder is None:
            return
        began = self.began
        with self._lock:
            try:
                for end, entry in deliveries.read(
                    self.folder, self._deliveries_to, self._on_damage
                ):
                    if not isinstance(entry, Delivered):
                        self._orders.take_in(entry, began)
                    else:
                        self._take_in(self._with_severity(entry))
                    self._deliveries_to = end
                if self._is_first_read:
                    self._is_first_read = False
                    self._retry_earlier()
            except PermissionError as error:  # sending twice is better than not sending
                self.say_once(
                    f"cannot read {deliveries.FILE_NAME} ({error.strerror}): people may be "
                    "notified twice."
                )
            try:
                for end, command in read_commands(
                    self.folder, self._commands_to, self._on_damaged_command
                ):
                    self._orders.take_in(command, began)
                    self._commands_to = end
            except PermissionError as error:
                self.say_once(
                    f"cannot read the commands ({error.strerror}): acknowledgements and silences "
                    "have no effect."
                )

    @property
    def began(self) -> float:
        """When the run started; 0 if its journal does not say."""
        if self._began is None and self.folder is not None:
            head = head_of(self.folder / FILE_NAME)
            self._began = head.started if head is not None else None
        return self._began or 0.0

    @property
    def acknowledged(self) -> Mapping[str, Sequence[str]]:
        """Who has acknowledged each incident, by its id."""
        return self._orders.acknowledged

    def in_force(self, time: float) -> list[Silence]:
        """Return the silences that are still in force."""
        silences = self._orders.silences
        step = last_step(self.folder) if silences and self.folder is not None else None
        return [silence for silence in silences if silence.holds(step, time)]

    def identified(self, event: Event) -> Event:
        """Return an event with the id of its incident, derived if it is of format 1."""
        return event if event.id else replace(event, id=derived_id(self.began, event.incident))

    def recorded(self, start: int = 0) -> Iterator[tuple[int, int, Event]]:
        """Yield the events of the journal from an offset on, with where each begins and ends."""
        if self.folder is not None:
            for begin, end, event in recorded_events(self.folder / FILE_NAME, start):
                yield begin, end, self.identified(event)

    def pending(
        self, channel: str, start: int, most: int, wanted: Callable[[Event], bool]
    ) -> Batch:
        """Return up to `most` events that are pending for a channel, from an offset on.

        `wanted` is called for every event on the way; unwanted events stay pending.
        """
        events: list[Event] = []
        next_start: int | None = None
        read_to = start
        for begin, end, event in self.recorded(start):
            if len(events) == most:
                return Batch(events, next_start or 0, all_read=False)
            read_to = end
            is_wanted = wanted(event)
            if not self.is_settled(channel, event):
                if is_wanted:
                    events.append(event)
                if next_start is None:
                    next_start = begin
            elif self._overtakes(channel, event):
                self.pass_over(channel, (e for e in events if e.id == event.id))
                events = [earlier for earlier in events if earlier.id != event.id]
        return Batch(events, read_to if next_start is None else next_start, all_read=True)

    def unsettled(self, channel: str, events: Iterable[Event]) -> list[Event]:
        """Return the pending events of an incident, given all of its events in order."""
        left: list[Event] = []
        for event in events:
            if not self.is_settled(channel, event):
                left.append(event)
            elif self._overtakes(channel, event):
                left = []
        return left

    def is_settled(self, channel: str, event: Event) -> bool:
        """Return whether an event is no longer pending for a channel."""
        key = (channel, key_of(event))
        return key in self._settled or key in self._passed_over

    def _overtakes(self, channel: str, event: Event) -> bool:
        """Return whether a settled event makes the earlier ones of its incident obsolete."""
        return event.event in RINGING and (channel, key_of(event)) in self._settled

    def rejections(self, channel: str) -> int:
        """Return for how many unacknowledged incidents a channel rejected the latest message."""
        known = self.acknowledged
        return sum(name == channel and id_ not in known for name, id_ in self._rejected)

    def is_rejected(self, channel: str, event: Event) -> bool:
        """Return whether an event is settled only because the channel rejected it."""
        rejection = self._rejected.get((channel, event.id))
        return rejection is not None and key_of(event) in rejection.keys

    def pause_after_rejection(self, channel: str, incident: str, *, over: bool) -> float | None:
        """Return the seconds until a rejected message is retried; None if it never is."""
        rejection = self._rejected.get((channel, incident))
        if rejection is None or rejection.is_final(over=over):
            return None
        return rejection.seconds_to_retry(self._clock())

    def retry(self, channel: str, events: Iterable[Event]) -> None:
        """Make rejected events pending again."""
        with self._lock:
            self._retry(channel, map(key_of, events))

    def was_rejected(self, channel: str, events: Sequence[Event]) -> bool:
        """Return whether any of the events is an automatic retry of a rejected message."""
        return any((channel, key_of(event)) in self._retried for event in events)

    def receipt(self, channel: str, incident: str) -> Mapping[str, str] | None:
        """Return the channel's receipt for follow-up messages; None if nothing was sent yet."""
        return self._receipts.get((channel, incident))

    def sent_at(self, channel: str, incident: str) -> float | None:
        """Return when a message about an incident was last sent to a channel."""
        return self._sent.get((channel, incident), (None, 0))[0]

    def repeats(self, channel: str, incident: str) -> int:
        """Return how many reminders of an incident were sent to a channel."""
        return self._sent.get((channel, incident), (None, 0))[1]

    def settle(
        self,
        channel: str,
        events: Sequence[Event],
        outcome: Outcome,
        *,
        attempts: int = 0,
        reason: str = "",
        receipt: Mapping[str, str] | None = None,
        repeat: int = 0,
        message: str = "",
    ) -> None:
        """Record the outcome of events, in memory and on disk, or raise OSError.

        `message` is the id of the message that was about all of them.
        """
        began, now = self.began, self._clock()
        entries = [
            Delivered(
                id=event.id,
                began=began,
                incident=event.incident,
                event=event.event,
                step=event.step,
                severity=event.severity,
                channel=channel,
                time=now,
                outcome=outcome,
                attempts=attempts,
                reason=reason,
                receipt=dict(receipt or {}),
                repeat=repeat,
                message=message,
                covers=len(events) if message else 1,
            )
            for event in events
        ]
        with self._lock:
            for entry in entries:
                self._take_in(entry)
            if self.folder is not None:
                deliveries.append(self.folder, *entries)

    def last_sent(self, channel: str) -> float | None:
        """Return when a channel last accepted a message."""
        times = (time for (name, _), (time, _) in self._sent.items() if name == channel)
        return max(times, default=None)

    def record_health(self, channels: list[Standing]) -> None:
        """Record the state of the channels. Errors are ignored, because nothing depends on it."""
        if self.folder is not None:
            with self._lock, contextlib.suppress(OSError):
                deliveries.append(self.folder, Health(time=self._clock(), channels=channels))

    def pass_over(self, channel: str, events: Iterable[Event]) -> None:
        """Mark events as not meant for a channel. This is not recorded: it may be reconfigured."""
        events = list(events)
        with self._lock:
            for event in events:
                self._rejected.pop((channel, event.id), None)
            self._passed_over.update((channel, key_of(event)) for event in events)

    def _retry(self, channel: str, keys: Iterable[Key]) -> None:
        again = {(channel, key) for key in keys}
        self._settled -= again
        self._retried |= again

    def _retry_earlier(self) -> None:
        """Make rejected events of earlier processes pending again, as `again` asks for."""
        for (channel, incident), rejection in self._rejected.items():
            if self._again == "all":
                self._settled -= {(channel, key) for key in rejection.keys}
            elif self._again != "none":
                over = incident in self._incidents_over()
                at_once = self._again == "open" and not over
                pause = rejection.seconds_to_retry(self._clock())
                if at_once or not (rejection.is_final(over=over) or pause):
                    self._retry(channel, rejection.keys)

    def _incidents_over(self) -> set[str]:
        if self._over is None:
            incidents: dict[str, IncidentRecord] = {}
            for _, _, event in self.recorded():
                add_event(incidents, event)
            self._over = {id_ for id_, known in incidents.items() if not known.is_open}
        return self._over

    def _with_severity(self, entry: Delivered) -> Delivered:
        """Return an entry with the severity of its event, which klarm 0.1 does not write.

        Of several events that differ only in severity, klarm 0.1 sent the first and treated the
        others as duplicates.
        """
        if entry.severity:
            return entry
        if self._severities is None:
            self._severities = {}
            for _, _, event in self.recorded():
                self._severities.setdefault((*key_of(event)[:3], ""), event.severity)
        severity = self._severities.get(entry.key)
        return entry if severity is None else replace(entry, severity=severity)

    def _take_in(self, entry: Delivered) -> None:
        place = (entry.channel, entry.id)
        if entry.outcome == "refused":
            if not self._rejected.setdefault(place, Rejection()).add(entry):
                return
        elif entry.outcome == "sent":
            self._rejected.pop(place, None)
            self._sent[place] = (entry.time, max(entry.repeat, self.repeats(*place)))
            self._receipts[place] = {**self._receipts.get(place, {}), **entry.receipt}
        self._settled.add((entry.channel, entry.key))

    def _on_damage(self, offset: int) -> None:
        if deliveries.FILE_NAME not in self._damaged:
            self._damaged.add(deliveries.FILE_NAME)
            self._say(
                f"{deliveries.FILE_NAME} is damaged at byte {offset}: the line is skipped, and "
                "people may be notified twice of what it recorded."
            )

    def _on_damaged_command(self, offset: int) -> None:
        if COMMANDS_FILE not in self._damaged:
            self._damaged.add(COMMANDS_FILE)
            self._say(damage_at(offset))

    def say_once(self, message: str) -> None:
        """Report a message once for all channels."""
        if message not in self._said:
            self._said.add(message)
            self._say(message)


def last_step(folder: Path) -> int | None:
    """Return the last step that a run's journal holds."""
    last = next(steps_back(folder / FILE_NAME), None)
    return None if last is None else last.step
