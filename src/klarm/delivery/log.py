"""Deliveries: the file beside a journal that says who was told, and what people said to it.

The training thread writes the journal and nobody else does. Whatever is written by others (the
delivery threads, `klarm deliver`, `klarm ack`, `klarm silence`) goes here, a line at a time. The
format is documented in docs/journal.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from klarm.journal import locks
from klarm.types import EventKind

FILE_NAME = "deliveries.jsonl"

# What became of an event on a channel. All of them settle it: it is not sent again by itself.
Outcome = Literal["sent", "refused", "silenced", "acknowledged"]


class Delivered(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="delivery"):
    """What became of one event on one channel."""

    began: float  # when the run did, as its journal says: a new run of the name starts afresh
    incident: int
    event: EventKind
    step: int
    channel: str
    time: float
    outcome: Outcome
    attempts: int = 0
    reason: str = ""
    receipt: dict[str, str] = {}


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ack"):
    """Somebody knows of an incident."""

    began: float
    incident: int
    by: str
    time: float


class Silenced(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="silence"):
    """Nobody is to be told of a signal's incidents until a step or a time."""

    began: float
    signal: str
    by: str
    time: float
    until_step: int | None = None
    until_time: float | None = None
    even_critical: bool = False

    def holds(self, step: int | None, time: float) -> bool:
        """Return whether it is still in force when a run has come to this step."""
        if self.until_time is not None:
            return time < self.until_time
        return self.until_step is not None and (step is None or step <= self.until_step)


class Unsilenced(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="silence_off"):
    """The silences of a signal that were written before this end here."""

    began: float
    signal: str
    by: str
    time: float


Entry = Delivered | Acknowledged | Silenced | Unsilenced

_decode = msgspec.json.Decoder(Entry).decode
_encode = msgspec.json.Encoder().encode


def append(folder: Path, *entries: Entry) -> None:
    """Write entries in one piece, or raise OSError. Several processes may do so at a time."""
    lines = b"".join(_encode(entry) + b"\n" for entry in entries)
    file = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        with locks.alone(file):
            if os.fstat(file).st_size and _last_byte(file) != b"\n":
                lines = b"\n" + lines  # a line was torn by a crash: nothing is to be glued to it
            while lines:
                lines = lines[os.write(file, lines) :]
    finally:
        os.close(file)


def read(folder: Path, start: int = 0) -> Iterator[tuple[int, Entry]]:
    """Yield what was written from an offset on, each with the offset behind it.

    What cannot be read, or is of a later version, is passed over.
    """
    path = folder / FILE_NAME
    if not path.is_file():  # not there; or a device, which may have no end
        return
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):  # being written
                return
            start += len(line)
            try:
                entry = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            yield start, entry


def _last_byte(file: int) -> bytes:
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1)
