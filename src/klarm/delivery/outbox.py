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
from typing import NamedTuple

from klarm.delivery import log as deliveries
from klarm.delivery.log import Delivered, Health, Outcome, Standing
from klarm.delivery.outcomes import Again, Outcomes
from klarm.delivery.silences import Orders, Silence
from klarm.journal import (
    COMMANDS_FILE,
    FILE_NAME,
    Claim,
    IncidentRecord,
    add_event,
    damage_at,
    head_of,
    read_commands,
    recorded_events,
    steps_back,
)
from klarm.types import Event

LOCK_NAME = "delivery.lock"


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
        recorded: Callable[[int], Iterable[tuple[int, int, Event]]] | None = None,
    ) -> None:
        """Prepare to read. With `commands_watched`, another part reports damaged commands.

        `recorded` yields the events from an offset on, if they are known already.
        """
        self._recorded = recorded
        self.folder = folder.absolute() if folder is not None else None
        self._again = again
        self._clock = clock
        self.outcomes = Outcomes(clock)
        self._say = say
        self._lock = threading.Lock()  # between the threads of the channels; never while sending
        self._claim: Claim | None = None
        self._began: float | None = clock() if folder is None else None
        self._deliveries_to = self._commands_to = 0  # the offsets up to which they were read
        # The files whose damage was reported.
        self._damaged: set[str] = {COMMANDS_FILE} if commands_watched else set()
        self._said: set[str] = set()
        self._orders = Orders()
        self._over: set[str] | None = None  # ids of resolved incidents, read when first needed
        self._is_first_read = True

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
                    self.outcomes.add(entry)
                    self._deliveries_to = end
                if self._is_first_read:
                    self._is_first_read = False
                    self.outcomes.retry_earlier(self._again, self._is_over)
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

    def recorded(self, start: int = 0) -> Iterator[tuple[int, int, Event]]:
        """Yield the events of the journal from an offset on, with where each begins and ends."""
        if self._recorded is not None:
            yield from self._recorded(start)
        elif self.folder is not None:
            yield from recorded_events(self.folder / FILE_NAME, start)

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
            if not self.outcomes.is_settled(channel, event):
                if is_wanted:
                    events.append(event)
                if next_start is None:
                    next_start = begin
            elif self.outcomes.overtakes(channel, event):
                self.outcomes.pass_over(channel, (e for e in events if e.id == event.id))
                events = [earlier for earlier in events if earlier.id != event.id]
        return Batch(events, read_to if next_start is None else next_start, all_read=True)

    def rejections(self, channel: str) -> int:
        """Return for how many unacknowledged incidents a channel rejected the latest message."""
        return self.outcomes.rejections(channel, self.acknowledged)

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
        now = self._clock()
        entries = [
            Delivered(
                id=event.id,
                seq=event.seq,
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
                self.outcomes.add(entry)
            if self.folder is not None:
                deliveries.append(self.folder, *entries)

    def record_health(self, channels: list[Standing]) -> None:
        """Record the state of the channels. Errors are ignored, because nothing depends on it."""
        if self.folder is not None:
            with self._lock, contextlib.suppress(OSError):
                deliveries.append(self.folder, Health(time=self._clock(), channels=channels))

    def _is_over(self, incident: str) -> bool:
        if self._over is None:
            incidents: dict[str, IncidentRecord] = {}
            for _, _, event in self.recorded():
                add_event(incidents, event)
            self._over = {id_ for id_, known in incidents.items() if not known.is_open}
        return incident in self._over

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
