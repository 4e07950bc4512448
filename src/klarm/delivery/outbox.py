"""The outbox: the events of a run that people have yet to be notified of.

An event is handed to the journal before anything is sent, and is in the deliveries after it was. So
what is pending is the one less the other, for this process and for any later one.
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

# What is pending once more, from the start, of what was rejected earlier: nothing; of open
# incidents what has waited long enough, or all; everything.
Again = Literal["none", "due", "open", "all"]
Place = tuple[str, str]  # a channel, and the id of an incident


class Batch(NamedTuple):
    """Events to send, in order."""

    events: list[Event]
    start: int  # where in the journal to look next time
    all_read: bool  # or there may be more behind them


class Outbox:
    """What a run still has to send to its channels, for one process that delivers.

    Nothing here is for the training thread: it reads files. Without a folder nothing is recorded,
    and what is known of deliveries ends with the process.
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
        """Prepare to read. `commands_watched` says that another part reports damaged commands."""
        self.folder = folder.absolute() if folder is not None else None
        self._again = again
        self._clock = clock
        self._say = say
        self._lock = threading.Lock()  # between the threads of the channels; never while sending
        self._claim: Claim | None = None
        self._began: float | None = clock() if folder is None else None
        self._deliveries_to = self._commands_to = 0  # read
        self._damaged: set[str] = {COMMANDS_FILE} if commands_watched else set()  # and said
        self._said: set[str] = set()
        self._orders = Orders()
        self._settled: set[tuple[str, Key]] = set()  # with the channel's name
        self._passed_over: set[tuple[str, Key]] = set()
        self._forgiven: set[tuple[str, Key]] = set()  # rejected, and pending again unasked
        self._over: set[str] | None = None  # ids of incidents, when this was first asked
        self._severities: dict[Key, Severity] | None = None  # when this was first asked
        self._rejected: dict[Place, Rejection] = {}
        self._reads_first = True
        self._receipts: dict[Place, Mapping[str, str]] = {}
        self._sent: dict[Place, tuple[float, int]] = {}  # when last, and how many reminders

    def claim(self) -> bool:
        """Become the one that delivers this run, or return False: another process is."""
        with self._lock:
            if self.folder is not None and self._claim is None:
                self._claim = Claim.on(self.folder / LOCK_NAME)
                if self._claim is None:
                    return False
                if self._claim.doubt:  # better sent twice than not at all
                    self._say(
                        f"{self._claim.doubt}: klarm cannot tell whether another process delivers "
                        "this run, and delivers it all the same. People may be notified twice."
                    )
            return True

    def release(self) -> None:
        """Let another process deliver."""
        with self._lock:
            if self._claim is not None:
                self._claim.release()
                self._claim = None

    def abandon(self) -> None:
        """Let go in a forked process of what the parent has claimed."""
        if self._claim is not None:
            self._claim.abandon()
            self._claim = None

    def refresh(self) -> None:
        """Take in what others have written since: deliveries and commands."""
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
                if self._reads_first:
                    self._reads_first = False
                    self._forgive_earlier()
            except PermissionError as error:  # somebody else's: better sent twice than not at all
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
        """When the run began; 0 if its journal does not say."""
        if self._began is None and self.folder is not None:
            head = head_of(self.folder / FILE_NAME)
            self._began = head.started if head is not None else None
        return self._began or 0.0

    @property
    def acknowledged(self) -> Mapping[str, Sequence[str]]:
        """Who knows of an incident, by its id."""
        return self._orders.acknowledged

    def in_force(self, time: float) -> list[Silence]:
        """Return the silences that are not over."""
        silences = self._orders.silences
        step = last_step(self.folder) if silences and self.folder is not None else None
        return [silence for silence in silences if silence.holds(step, time)]

    def identified(self, event: Event) -> Event:
        """Return an event with the id of its incident, which one of format 1 lacks."""
        return event if event.id else replace(event, id=derived_id(self.began, event.incident))

    def recorded(self, start: int = 0) -> Iterator[tuple[int, int, Event]]:
        """Yield the events of the journal from an offset on, each with its begin and its end."""
        if self.folder is not None:
            for begin, end, event in recorded_events(self.folder / FILE_NAME, start):
                yield begin, end, self.identified(event)

    def pending(
        self, channel: str, start: int, most: int, wanted: Callable[[Event], bool]
    ) -> Batch:
        """Return events that a channel has yet to be sent, at most so many, from an offset on.

        `wanted` is asked about every event on the way; what it does not want stays pending.
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
        """Return those of an incident's events, all of them and in order, that are pending."""
        left: list[Event] = []
        for event in events:
            if not self.is_settled(channel, event):
                left.append(event)
            elif self._overtakes(channel, event):
                left = []
        return left

    def is_settled(self, channel: str, event: Event) -> bool:
        """Return whether a channel needs an event no longer."""
        key = (channel, key_of(event))
        return key in self._settled or key in self._passed_over

    def _overtakes(self, channel: str, event: Event) -> bool:
        """Return whether what happened before a settled event is no longer news."""
        return event.event in RINGING and (channel, key_of(event)) in self._settled

    def rejections(self, channel: str) -> int:
        """Return of how many incidents a channel rejected the latest message, and nobody knows."""
        known = self.acknowledged
        return sum(name == channel and id_ not in known for name, id_ in self._rejected)

    def is_rejected(self, channel: str, event: Event) -> bool:
        """Return whether an event is settled only because a channel has rejected it."""
        rejection = self._rejected.get((channel, event.id))
        return rejection is not None and key_of(event) in rejection.keys

    def pause_after_rejection(self, channel: str, incident: str, *, over: bool) -> float | None:
        """Return how long what was rejected of an incident is still to rest; None: for good."""
        rejection = self._rejected.get((channel, incident))
        if rejection is None or rejection.is_final(over=over):
            return None
        return rejection.rests_for(self._clock())

    def forgive(self, channel: str, events: Iterable[Event]) -> None:
        """Have what was rejected pending once more."""
        with self._lock:
            self._forgive(channel, map(key_of, events))

    def was_rejected(self, channel: str, events: Sequence[Event]) -> bool:
        """Return whether any of these was rejected earlier, and nobody asked to send it again."""
        return any((channel, key_of(event)) in self._forgiven for event in events)

    def receipt(self, channel: str, incident: str) -> Mapping[str, str] | None:
        """Return what a channel needs to follow up on an incident; None if it was sent nothing."""
        return self._receipts.get((channel, incident))

    def sent_at(self, channel: str, incident: str) -> float | None:
        """Return when a channel was last sent something of an incident."""
        return self._sent.get((channel, incident), (None, 0))[0]

    def repeats(self, channel: str, incident: str) -> int:
        """Return how many reminders of an incident a channel was sent."""
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
    ) -> None:
        """Note what became of events, and write it down, or raise OSError."""
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
            )
            for event in events
        ]
        with self._lock:
            for entry in entries:
                self._take_in(entry)
            if self.folder is not None:
                deliveries.append(self.folder, *entries)

    def last_sent(self, channel: str) -> float | None:
        """Return when a channel last took a message."""
        times = (time for (name, _), (time, _) in self._sent.items() if name == channel)
        return max(times, default=None)

    def record_health(self, channels: list[Standing]) -> None:
        """Write down how the channels stand; where that is impossible, nobody needs it."""
        if self.folder is not None:
            with self._lock, contextlib.suppress(OSError):
                deliveries.append(self.folder, Health(time=self._clock(), channels=channels))

    def pass_over(self, channel: str, events: Iterable[Event]) -> None:
        """Note that a channel does not take events. Not written: the next process asks again."""
        events = list(events)
        with self._lock:
            for event in events:
                self._rejected.pop((channel, event.id), None)
            self._passed_over.update((channel, key_of(event)) for event in events)

    def _forgive(self, channel: str, keys: Iterable[Key]) -> None:
        again = {(channel, key) for key in keys}
        self._settled -= again
        self._forgiven |= again

    def _forgive_earlier(self) -> None:
        """Have pending once more what earlier processes were refused, as far as is asked for."""
        for (channel, incident), rejection in self._rejected.items():
            if self._again == "all":
                self._settled -= {(channel, key) for key in rejection.keys}
            elif self._again != "none":
                over = incident in self._incidents_over()
                at_once = self._again == "open" and not over
                rests = rejection.is_final(over=over) or rejection.rests_for(self._clock())
                if at_once or not rests:
                    self._forgive(channel, rejection.keys)

    def _incidents_over(self) -> set[str]:
        if self._over is None:
            incidents: dict[str, IncidentRecord] = {}
            for _, _, event in self.recorded():
                add_event(incidents, event)
            self._over = {id_ for id_, known in incidents.items() if not known.is_open}
        return self._over

    def _with_severity(self, entry: Delivered) -> Delivered:
        """Return an entry that says of which severity its event was.

        klarm 0.1 does not write it. It sent the first of several events that differ in nothing
        else, and held the others for the same.
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
        """Say it unless any channel has."""
        if message not in self._said:
            self._said.add(message)
            self._say(message)


def last_step(folder: Path) -> int | None:
    """Return the last step that a run's journal holds."""
    last = next(steps_back(folder / FILE_NAME), None)
    return None if last is None else last.step
