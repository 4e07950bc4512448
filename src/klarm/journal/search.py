"""Looking things up in a journal of any length without reading all of it.

For threads beside the training: long journals must not keep the interpreter from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from klarm.journal.records import Step
from klarm.types import Event

_PIECE = 2**20  # searched at once
_FIRST_PIECE_BACK, _PIECE_BACK = 2**15, 2**18  # what is looked for from the end is mostly near it
_FAR_BACK = 2**24  # a step that is not found so near the end is done without
_EVENT, _STEP = b'{"type":"event"', b'{"type":"step"'
_OPENED, _STEP_OF = b'{"type":"event","event":"opened","incident":%d,', b'{"type":"step","step":%d,'
_decode_event = msgspec.json.Decoder(Event)
_decode_step = msgspec.json.Decoder(Step)

Record = TypeVar("Record")


class Place(NamedTuple):
    """When a step was logged, and where its line in the journal ends."""

    time: float
    end: int


def recorded_events(journal: Path, start: int = 0) -> Iterator[tuple[int, int, Event]]:
    """Yield the events of a journal from an offset on, each with where its line begins and ends."""
    for begin, end, line in _lines(journal, _EVENT, start):
        event = _decoded(_decode_event, line)
        if event is not None:
            yield begin, end, event


def opening_of(journal: Path, incident: int) -> Event | None:
    """Return the event that opened an incident."""
    lines = _lines_back(journal, _OPENED % incident)
    return next((event for _, line in lines if (event := _decoded(_decode_event, line))), None)


def place_of(journal: Path, step: int, end: int | None = None) -> Place | None:
    """Return where a step was last logged, unless that is very far before the end or an offset."""
    for begin, line in _lines_back(journal, _STEP_OF % step, end, _FAR_BACK):
        found = _decoded(_decode_step, line)
        if found is not None:
            return Place(found.time, begin + len(line))
    return None


def steps_back(journal: Path, end: int | None = None) -> Iterator[Step]:
    """Yield the steps of a journal, the last first, from its end or from an offset back."""
    for _, line in _lines_back(journal, _STEP, end):
        step = _decoded(_decode_step, line)
        if step is not None:
            yield step


def _lines_back(
    journal: Path, beginning: bytes, end: int | None = None, farthest: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin so, the last first, each with where it begins."""
    if not journal.is_file():  # not there; or a device, which may have no end
        return
    with journal.open("rb") as file:
        at = file.seek(0, os.SEEK_END) if end is None else end
        stop = 0 if farthest is None else max(0, at - farthest)
        size = _FIRST_PIECE_BACK
        rest = b""  # of a line that begins before the piece
        while at > stop:
            size = min(size, at)
            at -= size
            file.seek(at)
            piece = file.read(size) + rest
            size = min(2 * size, _PIECE_BACK)
            first = piece.find(b"\n")
            rest = piece[: first + 1] if first >= 0 else piece
            found = len(piece)
            while (found := piece.rfind(b"\n" + beginning, 0, found)) >= 0:
                line_end = piece.find(b"\n", found + 1) + 1
                if line_end:
                    yield at + found + 1, piece[found + 1 : line_end]
        if at == 0 and rest.startswith(beginning) and rest.endswith(b"\n"):
            yield 0, rest


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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
