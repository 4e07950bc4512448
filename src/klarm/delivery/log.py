"""Deliveries: the file beside a journal that says what was sent to whom.

The training thread is the only writer of the journal. Whoever delivers (the threads of a run,
`klarm deliver`) records it here, one line per event and channel. docs/journal.md has the format.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from klarm.journal import append_alone, checked, derived_id, read_lines, sealed
from klarm.types import Command, Event, EventKind, Severity

FILE_NAME = "deliveries.jsonl"
_WRITING_SECONDS = 5.0  # a line that takes longer is torn

# What became of an event on a channel. Each is final but "refused": that is tried again while the
# incident is open. It is what people are shown as rejected; the word in the file stays as it was.
Outcome = Literal["sent", "refused", "silenced", "acknowledged"]

# Which event this is, whichever process reads it: the incident's id, the kind, the step and the
# severity. Where training goes back, or a step has several dicts, an incident may escalate twice
# at one step: of one severity that is the same news, sent once; of another it is news.
Key = tuple[str, EventKind, int, Severity | Literal[""]]


def key_of(event: Event) -> Key:
    """Return what identifies an event in any run."""
    return event.id, event.event, event.step, event.severity


class Delivered(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="delivery"):
    """What became of one event on one channel."""

    began: float  # `started` of the journal's first line
    incident: int  # the number within the run, for people
    event: EventKind
    step: int
    channel: str
    time: float
    outcome: Outcome
    attempts: int = 0
    reason: str = ""
    receipt: dict[str, str] = {}
    id: str = ""  # of the incident; derived on reading where a line of format 1 has none
    severity: Severity | Literal[""] = ""  # of the event; klarm 0.1 does not write it
    repeat: int = 0  # which reminder it was

    @property
    def key(self) -> Key:
        """Which event it is about. Without a severity: the first such event of the journal."""
        return self.id, self.event, self.step, self.severity


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How one channel stood when a process stopped delivering."""

    channel: str
    last_sent: float | None  # Unix time of the last message that it took
    pending: bool  # something is left, or may be
    rejected: int  # incidents that it did not take, and that nobody has acknowledged
    dropped: bool  # events found no room, and no journal holds them


class Health(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="health"):
    """How the channels stood when a process stopped delivering: for people, no reader needs it."""

    time: float
    channels: list[Standing]


class _Acknowledged(msgspec.Struct, tag_field="type", tag="ack"):
    began: float
    incident: int
    by: str
    time: float


class _Silenced(msgspec.Struct, tag_field="type", tag="silence"):
    began: float
    signal: str
    by: str
    time: float
    until_step: int | None = None
    until_time: float | None = None
    even_critical: bool = False


class _Unsilenced(msgspec.Struct, tag_field="type", tag="silence_off"):
    began: float
    signal: str
    by: str
    time: float


# Commands stand in files of format 1 only; today they have a file of their own.
Entry = Delivered | Command

_decode = msgspec.json.Decoder(Delivered | _Acknowledged | _Silenced | _Unsilenced).decode
_encode = msgspec.json.Encoder().encode


def append(folder: Path, *entries: Delivered | Health) -> None:
    """Write entries in one piece, or raise OSError. Whoever delivers a run is the one writer."""
    append_alone(folder / FILE_NAME, b"".join(sealed(_encode(entry)) for entry in entries))


def read(
    folder: Path, start: int = 0, on_damage: Callable[[int], None] | None = None
) -> Iterator[tuple[int, Entry]]:
    """Yield what was written from an offset on, each entry with the offset behind it.

    A damaged line is skipped, and `on_damage` is called with its offset. A line that a later
    version wrote is skipped, too.
    """
    begin = start
    for end, line in read_lines(folder / FILE_NAME, start):
        entry = None
        try:
            is_damaged = checked(line) == "bad"
            if not is_damaged:
                found = _decode(line)
                # A line that has an id was written with a checksum; without one it is not whole.
                is_damaged = bool(getattr(found, "id", "")) and checked(line) == "none"
                entry = None if is_damaged else _current(found)
        except msgspec.ValidationError:
            pass
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            is_damaged = bool(line.strip())
        if is_damaged and on_damage is not None:
            on_damage(begin)
        begin = end
        if entry is not None:
            yield end, entry
    if on_damage is not None and _is_torn(folder / FILE_NAME, begin):
        on_damage(begin)


def _is_torn(path: Path, end: int) -> bool:
    """Tell whether a file goes on behind its last line, and nobody is writing that now."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_size > end and not 0 <= time.time() - found.st_mtime < _WRITING_SECONDS


def _current(found: Delivered | _Acknowledged | _Silenced | _Unsilenced) -> Entry:
    """Return a line as it would be written today."""
    if isinstance(found, Delivered):
        id_ = found.id or derived_id(found.began, found.incident)
        return msgspec.structs.replace(found, id=id_)
    key = f"{type(found).__name__}/{found.began!r}/{found.time!r}"
    if isinstance(found, _Acknowledged):
        id_ = derived_id(found.began, found.incident)
        return Command(command="ack", key=key, time=found.time, by=found.by, incident=id_)
    if isinstance(found, _Unsilenced):
        return Command(
            command="silence_off", key=key, time=found.time, by=found.by, signal=found.signal
        )
    return Command(
        command="silence",
        key=key,
        time=found.time,
        by=found.by,
        signal=found.signal,
        until_step=found.until_step,
        until_time=found.until_time,
        even_critical=found.even_critical,
    )
