"""Deliveries: the file beside a journal that records which event was sent to which channel.

The training thread is the only writer of the journal. The process that delivers (the run itself or
`klarm deliver`) writes this file, one line per event and channel. docs/journal.md has the format.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from klarm.journal import append_alone, checked, read_lines, sealed
from klarm.types import Event, EventKind, Severity

FILE_NAME = "deliveries.jsonl"
_MAX_WRITE_SECONDS = 5.0  # a line that is still incomplete after this was cut short by a crash

# The outcome of an event on a channel. All are final except "refused", which is retried while the
# incident is open. People are shown the word "rejected"; the word in the file is an older one.
Outcome = Literal["sent", "refused", "silenced", "acknowledged"]

# Identifies an event in every process: the incident's id, and the event's number within it. The
# kind is there for one case: if a process is killed before a full disk took its last lines, their
# numbers are given again, and a resolution must not pass for what was sent of the lost event.
Key = tuple[str, int, EventKind]


def key_of(event: Event) -> Key:
    """Return the key that identifies an event in any run."""
    return event.id, event.seq, event.event


def message_id_of(events: Sequence[Event], repeat: int = 0) -> str:
    """Return an id for deduplication: every process derives the same one from these events."""
    keys = "\n".join("/".join(map(str, key_of(event))) for event in events)
    if repeat:
        keys += f"\nreminder {repeat}"
    return hashlib.sha256(keys.encode()).hexdigest()[:32]


class Delivered(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="delivery"):
    """The outcome of one event on one channel."""

    id: str  # of the incident
    seq: int  # of the event, within the incident
    incident: int  # the number within the run, for people
    event: EventKind
    step: int
    severity: Severity
    channel: str
    time: float
    outcome: Outcome
    attempts: int = 0
    reason: str = ""
    receipt: dict[str, str] = {}
    repeat: int = 0  # the number of the reminder; 0 if it was not a reminder
    message: str = ""  # the id of the message, if there was one; events that were late share one
    covers: int = 1  # how many events that message was about

    @property
    def key(self) -> Key:
        """The key of the event."""
        return self.id, self.seq, self.event


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one channel when a process stopped delivering."""

    channel: str
    last_sent: float | None  # Unix time of the last message that the channel accepted
    pending: bool  # whether messages are, or may be, pending
    rejected: int  # incidents whose messages it rejected and that nobody has acknowledged
    dropped: bool  # whether events did not fit into memory and no journal holds them


class Health(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="health"):
    """The state of all channels when a process stopped delivering. klarm does not read it."""

    time: float
    channels: list[Standing]


_decode = msgspec.json.Decoder(Delivered).decode
_encode = msgspec.json.Encoder().encode


def by_message(entries: Iterable[Delivered]) -> list[list[Delivered]]:
    """Group entries by message: a message may cover several events."""
    found: dict[object, list[Delivered]] = {}
    for entry in entries:
        sent = (entry.channel, entry.id, entry.outcome, entry.time, entry.repeat, entry.message)
        found.setdefault(sent, []).append(entry)
    return list(found.values())


def append(folder: Path, *entries: Delivered | Health) -> None:
    """Append entries, or raise OSError. Only the process that delivers the run may call this."""
    append_alone(folder / FILE_NAME, b"".join(sealed(_encode(entry)) for entry in entries))


def read(
    folder: Path, start: int = 0, on_damage: Callable[[int], None] | None = None
) -> Iterator[tuple[int, Delivered]]:
    """Yield the entries from an offset on, each with the offset where its line ends.

    A damaged line is skipped, and `on_damage` is called with its offset. Lines of later versions
    of klarm are skipped, too.
    """
    begin = start
    for end, line in read_lines(folder / FILE_NAME, start):
        if checked(line) == "good":
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                yield end, _decode(line)
        elif line.strip() and on_damage is not None:
            on_damage(begin)
        begin = end
    if on_damage is not None and _is_torn(folder / FILE_NAME, begin):
        on_damage(begin)


def _is_torn(path: Path, end: int) -> bool:
    """Return whether a file ends with an incomplete line that is not being written now."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_size > end and not 0 <= time.time() - found.st_mtime < _MAX_WRITE_SECONDS
