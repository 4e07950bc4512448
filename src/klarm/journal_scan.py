"""Looking things up in a journal of any length without reading all of it.

For threads beside the training: long journals must not keep the interpreter from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from klarm.journal import Step
from klarm.types import Event

_PIECE = 2**20  # searched at once
_TAIL = 2**20
_EVENT, _STEP = b'{"type":"event"', b'{"type":"step"'
_decode_event = msgspec.json.Decoder(Event)
_decode_step = msgspec.json.Decoder(Step)

Record = TypeVar("Record")


def recorded_events(journal: Path, start: int = 0) -> Iterator[tuple[int, int, Event]]:
    """Yield the events of a journal from an offset on, each with where its line begins and ends."""
    for begin, end, line in _lines(journal, _EVENT, start):
        event = _decoded(_decode_event, line)
        if event is not None:
            yield begin, end, event


def last_steps(journal: Path) -> list[Step]:
    """Return the steps at the end of a journal, as far as they are cheap to read."""
    if not journal.is_file():  # not there; or a device, which may have no end
        return []
    with journal.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        lines = file.read().split(b"\n")[:-1]
    steps = (_decoded(_decode_step, line) for line in lines if line.startswith(_STEP))
    return [step for step in steps if step is not None]


def _lines(journal: Path, beginning: bytes, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """Yield the lines that begin so; others are passed over unread: a long run has millions."""
    if not journal.is_file():
        return
    with journal.open("rb") as file:
        file.seek(start)
        piece = b""
        while more := file.read(_PIECE):
            piece += more
            whole = piece.rfind(b"\n") + 1
            found = piece.find(beginning, 0, whole)
            while found >= 0:
                end = piece.index(b"\n", found) + 1
                if found == 0 or piece[found - 1 : found] == b"\n":
                    yield start + found, start + end, piece[found:end]
                found = piece.find(beginning, end, whole)
            piece = piece[whole:]
            start += whole


def _decoded(decoder: msgspec.json.Decoder[Record], line: bytes) -> Record | None:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
