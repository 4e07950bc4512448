"""Looking things up in a journal of any length without reading all of it.

For threads beside the training: long journals must not keep the interpreter from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from msgspec.structs import replace

from klarm.journal.checksum import checked
from klarm.journal.identity import derived_id
from klarm.journal.lines import RUN, Stored, opened, whole_end
from klarm.journal.records import Record, Resume, Started, Step, decoded
from klarm.journal.rollbacks import Limit
from klarm.types import Command, Event

_PIECE = 2**17  # searched at once
_FIRST_PIECE_BACK, _PIECE_BACK = 2**15, 2**18  # what is looked for from the end is mostly near it
_FAR_BACK = 2**24  # a step that is not found so near the end is done without
_EVENT, _STEP, _RESUME = b'{"type":"event"', b'{"type":"step"', b'{"type":"resume"'
_COMMAND = b'{"type":"command"'
_OPENED, _STEP_OF = b'{"type":"event","event":"opened","incident":%d,', b'{"type":"step","step":%d,'


class Place(NamedTuple):
    """When a step was logged, and where its line in the journal ends."""

    time: float
    end: int


def recorded_events(journal: Path, start: int = 0) -> Iterator[tuple[int, int, Event]]:
    """Yield the events of a journal from an offset on, each with where its line begins and ends.

    Every event has an id: in a journal of format 1, it is derived.
    """
    began: float | None = None
    for begin, end, record in _records(journal, _EVENT, start):
        if isinstance(record, Event):
            if not record.id and began is None:
                began = began_at(journal)
            yield begin, end, identified(record, began or 0.0)


def identified(event: Event, began: float) -> Event:
    """Return an event with the id of its incident, derived if it has none."""
    return event if event.id else replace(event, id=derived_id(began, event.incident))


def began_at(journal: Stored) -> float:
    """Return when the first process of a run began; 0 if no run line can be read."""
    return next((run.started for _, run in run_lines(journal)), 0.0)


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


def opening_of(journal: Path, incident: int, id_: str = "") -> Event | None:
    """Return the event that opened an incident: the last of its number, or the one of its id."""
    began: float | None = None
    for _, record in _records_back(journal, (_OPENED % incident,)):
        if isinstance(record, Event):
            if not record.id and began is None:
                began = began_at(journal)
            event = identified(record, began or 0.0)
            if id_ in ("", event.id):
                return event
    return None


def place_of(journal: Path, step: int, end: int | None = None) -> Place | None:
    """Return where a step was last logged, unless that is very far before the end or an offset."""
    for behind, found in _records_back(journal, (_STEP_OF % step,), end, _FAR_BACK):
        if isinstance(found, Step):
            return Place(found.time, behind)
    return None


def steps_back(journal: Stored, end: int | None = None) -> Iterator[Step]:
    """Yield the steps before the end or an offset that no rollback before it undid, last first."""
    limit = Limit()
    for _, record in _records_back(journal, (_STEP, _RESUME), end):
        if isinstance(record, Resume):
            limit = limit.with_resume(record.step)
        elif isinstance(record, Step) and limit.keeps_step(record.step):
            yield record


def _records(
    journal: Stored, beginning: bytes, start: int = 0
) -> Iterator[tuple[int, int, Record]]:
    """Yield what counts of the lines that begin so, each with where it begins and ends."""
    with opened(journal) as file:
        unsealed = _Unsealed(file)
        for begin, line in _lines(file, beginning, start, whole_end(file)):
            if unsealed.counts(begin, line) and (record := decoded(line)) is not None:
                yield begin, begin + len(line), record


def _records_back(
    journal: Stored,
    beginnings: tuple[bytes, ...],
    end: int | None = None,
    farthest: int | None = None,
) -> Iterator[tuple[int, Record]]:
    """Yield what counts of the lines that begin so, the last first, each with where it ends."""
    with opened(journal) as file:
        unsealed = _Unsealed(file)
        end = whole_end(file) if end is None else end
        stop = 0 if farthest is None else max(0, end - farthest)
        for begin, line in _lines_back(file, beginnings, end, stop):
            if unsealed.counts(begin, line) and (record := decoded(line)) is not None:
                yield begin + len(line), record


class _Unsealed:
    """Tells of lines without a checksum whether they count: where klarm 0.1 wrote, they do."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._run_at = 0  # where the run line begins that decides
        self._known_to = 0  # and up to where it does
        self._counting: bool | None = None

    def counts(self, begin: int, line: bytes) -> bool:
        """Return whether a line of the journal counts, with or without a checksum."""
        verdict = checked(line)
        if verdict != "none":
            return verdict == "good"
        if line.startswith(RUN):
            record = decoded(line)
            return isinstance(record, Started) and record.format == 1
        if self._counting is None or begin < self._run_at:
            self._decide(begin, 0)
        elif begin > self._known_to:
            self._decide(begin, self._known_to)
        return bool(self._counting)

    def _decide(self, at: int, stop: int) -> None:
        """Look for the last run line before an offset, no further back than to another."""
        self._known_to = at
        for begin, line in _lines_back(self._file, (RUN,), at, stop):
            record, verdict = decoded(line), checked(line)
            if isinstance(record, Started) and (verdict == "good" or record.format == 1):
                self._run_at, self._counting = begin, verdict == "none"
                return
        if stop == 0:  # the run line is damaged: what is written after it tells
            self._file.seek(0)
            beginning = self._file.read(_FIRST_PIECE_BACK).split(b"\n")
            self._run_at, self._counting = 0, all(checked(line) == "none" for line in beginning)


def _lines_back(
    file: IO[bytes], beginnings: tuple[bytes, ...], end: int, stop: int
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin so, the last first, each with where it begins."""
    at, size = end, _FIRST_PIECE_BACK
    rest = b""  # of a line that begins before the piece
    while at > stop:
        size = min(size, at)
        at -= size
        file.seek(at)
        piece = file.read(size) + rest
        size = min(2 * size, _PIECE_BACK)
        first = piece.find(b"\n")
        rest = piece[: first + 1] if first >= 0 else piece
        found = {sought: piece.rfind(b"\n" + sought) for sought in beginnings}
        while (last := max(found, key=found.__getitem__)) and (place := found[last]) >= 0:
            line_end = piece.find(b"\n", place + 1) + 1
            if line_end:
                yield at + place + 1, piece[place + 1 : line_end]
            found[last] = piece.rfind(b"\n" + last, 0, place)
    if at == 0 and rest.startswith(beginnings) and rest.endswith(b"\n"):
        yield 0, rest


def _lines(file: IO[bytes], beginning: bytes, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin so; others are passed over unread: a long run has millions."""
    piece = b""
    while start + len(piece) < stop:
        file.seek(start + len(piece))
        more = file.read(min(_PIECE, stop - start - len(piece)))
        if not more:
            return
        piece += more
        whole = piece.rfind(b"\n") + 1
        found = piece.find(beginning, 0, whole)
        while found >= 0:
            end = piece.index(b"\n", found) + 1
            if found == 0 or piece[found - 1 : found] == b"\n":
                yield start + found, piece[found:end]
            found = piece.find(beginning, end, whole)
        piece = piece[whole:]
        start += whole
