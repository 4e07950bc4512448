"""Silences: which messages acknowledgements and silences hold back, and which they never do."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from klarm.delivery.log import Key, key_of
from klarm.journal import acknowledged_after
from klarm.types import RINGING, Command, Event

# Send the events, hold them until a silence ends, or the reason why they are never sent.
Verdict = Literal["send", "wait", "silenced", "acknowledged"]
# How often to check whether a silence has ended.
LOOK_AGAIN_SECONDS = 15.0
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(rf"(\d{{1,9}})\s*(steps?|{'|'.join(_SECONDS)})", re.ASCII)


class Silence(NamedTuple):
    """A signal whose incidents are not sent until a step or a time."""

    signal: str
    by: str
    until_step: int | None = None
    until_time: float | None = None
    even_critical: bool = False

    def holds(self, step: int | None, time: float) -> bool:
        """Return whether the silence is in force at a step and a time."""
        if self.until_time is not None:
            return time < self.until_time
        return self.until_step is not None and (step is None or step <= self.until_step)


class Orders:
    """The current acknowledgements and silences, set with `klarm ack` and `klarm silence`."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, list[str]] = {}  # an incident's id: by whom, each once
        self.silences: list[Silence] = []

    def take_in(self, command: Command, began: float) -> None:
        """Apply a command. A silence from before the run started was meant for another run."""
        if command.command in ("ack", "ack_off"):
            names = self.acknowledged.pop(command.incident, [])
            if names := acknowledged_after(command, names):
                self.acknowledged[command.incident] = names
        elif command.command == "silence" and command.time >= began:
            self.silences.append(
                Silence(
                    command.signal,
                    command.by,
                    command.until_step,
                    command.until_time,
                    command.even_critical,
                )
            )
        elif command.command == "silence_off":
            self.silences = [other for other in self.silences if other.signal != command.signal]


class HeldBack:
    """The events that silences hold back from one channel, until the next check."""

    def __init__(self) -> None:
        self._keys: set[Key] = set()
        self._incidents: set[str] = set()
        self._look_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __contains__(self, event: Event) -> bool:
        return key_of(event) in self._keys

    def precedes(self, events: Sequence[Event]) -> bool:
        """Return whether held-back events of the same incident must be sent before these.

        Events that notify people are sent immediately and make the held-back ones obsolete.
        """
        return events[0].id in self._incidents and not rings(events)

    @property
    def look_at(self) -> float:
        """When to check again whether the events may be sent."""
        return self._look_at

    def add(self, events: Iterable[Event], now: float) -> None:
        """Hold back events."""
        if not self._keys:
            self._look_at = now + LOOK_AGAIN_SECONDS
        for event in events:
            self._keys.add(key_of(event))
            self._incidents.add(event.id)

    def release(self, now: float) -> bool:
        """Release all events if it is time to check again; return whether any were held."""
        if not self._keys or now < self._look_at:
            return False
        self._keys.clear()
        self._incidents.clear()
        return True


def judge(
    events: Sequence[Event],
    *,
    notified: bool,
    acknowledged: Collection[str],
    silences: Iterable[Silence],
) -> Verdict:
    """Decide what to do with the pending events of one incident on a channel.

    - If the channel was notified of an incident, its end is sent, and so are events that notify
      nobody.
    - An acknowledgement holds back events that are neither critical nor an escalation. The person
      who acknowledged does not know that the incident got worse, and other readers of the channel
      must not miss a critical event.
    - A silence holds back events that are not critical, and critical ones only if it says so. If
      the incident is still open when the silence ends, the events are sent then.
    """
    last = events[-1]
    over = last.event == "resolved"
    if notified and (over or not rings(events)):
        return "send"
    critical = any(event.severity == "critical" for event in events)
    worse = any(event.event == "escalated" for event in events)
    if last.id in acknowledged and not critical and not worse:
        return "acknowledged"
    for silence in silences:
        if silence.signal == last.signal and (silence.even_critical or not critical):
            return "silenced" if over else "wait"
    return "send"


def rings(events: Iterable[Event]) -> bool:
    """Return whether any of the events is one that people are notified of."""
    return any(event.event in RINGING for event in events)


def silence_in_words(silence: Silence) -> str:
    """Return in words until when a silence lasts, and whether critical incidents are sent."""
    until = f"step {silence.until_step}"
    if silence.until_time is not None:
        until = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(silence.until_time))
    if silence.even_critical:
        return f"{silence.signal} is silenced until {until}, critical incidents included"
    return f"{silence.signal} is silenced until {until}; critical incidents are still sent"


def parse_span(span: str, step: int | None, now: float) -> tuple[int | None, float | None]:
    """Return the step or the time at which a duration ends; raise ValueError if it is invalid.

    >>> parse_span("200steps", 1000, 0.0), parse_span("2h", 1000, 0.0)
    ((1200, None), (None, 7200.0))
    """
    found = _DURATION.fullmatch(span.strip())
    if found is None or not int(found[1]):
        raise ValueError(f"{span!r} is not a duration; try 200steps, 30min, 2h or 1d")
    count, unit = int(found[1]), found[2]
    if unit.startswith("step"):
        return (step or 0) + count, None
    return None, now + count * _SECONDS[unit]
