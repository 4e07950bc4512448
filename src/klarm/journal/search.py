"""Finds records in a journal of any length without decoding every line.

This is for threads that run beside training: reading a long journal must not hold the GIL for long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from klarm.journal.checksum import checked
from klarm.journal.lines import MAX_LINE_BYTES, RUN, Stored, opened, whole_end
from klarm.journal.records import Record, Resume, Started, Step, decoded
from klarm.journal.rollbacks import Limit
from klarm.types import Command, Event

_CHUNK = 2**16  # bytes searched at a time: the allocator keeps what a thread needs at its peak
# A search from the end begins with a small chunk: what it looks for is mostly near the end.
_FIRST_CHUNK_BACK, _MAX_CHUNK_BACK = 2**15, 2**16
_MAX_BACK = 2**24  # bytes; a step further from the end than this is not found
_EVENT, _STEP, _RESUME = b'{"type":"event"', b'{"type":"step"', b'{"type":"resume"'
_COMMAND = b'{"type":"command"'
_OPENED, _STEP_OF = b'{"type":"event","event":"opened","incident":%d,', b'{"type":"step","step":%d,'


class Place(NamedTuple):
    """The time at which a step was logged, and the offset where its line in the journal ends."""

    time: float
    end: int


def recorded_events(journal: Path, start: int = 0) -> Iterator[tuple[int, int, Event]]:
    """Yield the events of a journal from an offset on, each with where its line begins and ends."""
    for begin, end, record in _records(journal, _EVENT, start):
        if isinstance(record, Event):
            yield begin, end, record


def run_lines(journal: Stored) -> Iterator[tuple[int, Started]]:
    """Yield the run lines of a journal, each with where it begins."""
    for begin, _, record in _records(journal, RUN):
        if isinstance(record, Started):
            yield begin, record


def resume_lines(journal: Stored, start: int = 0) -> Iterator[tuple[int, Resume]]:
    """Yield the resume lines of a journal from an offset on, each with where it begins."""
    for begin, _, record in _records(journal, _RESUME, start):
        if isinstance(record, Resume):
            yield begin, record


def command_lines(journal: Stored) -> Iterator[tuple[int, Command]]:
    """Yield the commands that a run has applied, each with where its line begins."""
    for begin, _, record in _records(journal, _COMMAND):
        if isinstance(record, Command):
            yield begin, record


def opening_of(journal: Path, incident: int, id_: str) -> Event | None:
    """Return the event that opened the incident with this number and id."""
    for _, record in _records_back(journal, (_OPENED % incident,)):
        if isinstance(record, Event) and record.id == id_:
            return record
    return None


def place_of(journal: Path, step: int, end: int | None = None) -> Place | None:
    """Return where a step was last logged before the end or an offset, unless it is far back."""
    for line_end, found in _records_back(journal, (_STEP_OF % step,), end, _MAX_BACK):
        if isinstance(found, Step):
            return Place(found.time, line_end)
    return None


def times_of(journal: Path, steps: Collection[int], end: int | None = None) -> dict[int, float]:
    """Return when steps were last logged before the end or an offset, without those far back."""
    found: dict[int, float] = {}
    wanted = tuple({_STEP_OF % step for step in steps})
    for _, record in _records_back(journal, wanted, end, _MAX_BACK) if wanted else ():
        if isinstance(record, Step):
            found.setdefault(record.step, record.time)
            if len(found) == len(wanted):
                break
    return found


def steps_back(journal: Stored, end: int | None = None) -> Iterator[Step]:
    """Yield the steps before the end or an offset, last first, without those rolled back."""
    limit = Limit()
    for _, record in _records_back(journal, (_STEP, _RESUME), end):
        if isinstance(record, Resume):
            limit = limit.with_resume(record.step)
        elif isinstance(record, Step) and limit.keeps_step(record.step):
            yield record


def _records(
    journal: Stored, beginning: bytes, start: int = 0
) -> Iterator[tuple[int, int, Record]]:
    """Yield the valid records whose lines have a prefix, each with where it begins and ends."""
    with opened(journal) as file:
        for begin, line in _lines(file, beginning, start, whole_end(file)):
            if checked(line) == "good" and (record := decoded(line)) is not None:
                yield begin, begin + len(line), record


def _records_back(
    journal: Stored,
    beginnings: tuple[bytes, ...],
    end: int | None = None,
    farthest: int | None = None,
) -> Iterator[tuple[int, Record]]:
    """Yield the valid records whose lines have one of the prefixes, last first, with their end."""
    with opened(journal) as file:
        end = whole_end(file) if end is None else end
        stop = 0 if farthest is None else max(0, end - farthest)
        for begin, line in _lines_back(file, beginnings, end, stop):
            if checked(line) == "good" and (record := decoded(line)) is not None:
                yield begin + len(line), record


def _lines_back(
    file: IO[bytes], beginnings: tuple[bytes, ...], end: int, stop: int
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that have one of the prefixes, last first, each with where it begins."""
    at, size = end, _FIRST_CHUNK_BACK
    rest = b""  # the end of a line that begins before the chunk
    while at > stop:
        size = min(size, at)
        at -= size
        file.seek(at)
        chunk = file.read(size) + rest
        size = min(2 * size, _MAX_CHUNK_BACK)
        first = chunk.find(b"\n")
        rest = chunk[: first + 1] if first >= 0 else chunk
        if len(rest) > MAX_LINE_BYTES:
            rest = b""  # without its end, the line is not valid, which it is not anyway
        found = {prefix: chunk.rfind(b"\n" + prefix) for prefix in beginnings}
        while (last := max(found, key=found.__getitem__)) and (place := found[last]) >= 0:
            line_end = chunk.find(b"\n", place + 1) + 1
            if line_end:
                yield at + place + 1, chunk[place + 1 : line_end]
            found[last] = chunk.rfind(b"\n" + last, 0, place)
    if at == 0 and rest.startswith(beginnings) and rest.endswith(b"\n"):
        yield 0, rest


def _lines(file: IO[bytes], beginning: bytes, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that have a prefix; others are not split: a long run has millions."""
    chunk = b""
    while start + len(chunk) < stop:
        file.seek(start + len(chunk))
        more = file.read(min(_CHUNK, stop - start - len(chunk)))
        if not more:
            return
        chunk += more
        whole = chunk.rfind(b"\n") + 1
        if not whole and len(chunk) > MAX_LINE_BYTES:  # the rest of the line will not be valid
            start, chunk = start + len(chunk), b""
            continue
        found = chunk.find(beginning, 0, whole)
        while found >= 0:
            end = chunk.index(b"\n", found) + 1
            if found == 0 or chunk[found - 1 : found] == b"\n":
                yield start + found, chunk[found:end]
            found = chunk.find(beginning, end, whole)
        chunk = chunk[whole:]
        start += whole
