"""The lines of a journal on disk: where the last complete batch ends, and which lines are valid."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Literal

import msgspec

from klarm.journal.checksum import checked
from klarm.journal.records import DECODE_ERRORS, FORMAT

# A journal to read: the path of a file, or an open file as used by replays.
Stored = Path | IO[bytes]
Damage = Literal["damaged", "not by klarm", "incomplete"]
# Called with the number of a line that is ignored, and why.
OnDamage = Callable[[int, Damage], None]

RUN = b'{"type":"run"'
_HEADS = (b'{"type":"step"', b'{"type":"resume"', b'{"type":"finish"', b'{"type":"command"')
_CHUNK_BYTES = 2**17
_FIRST_CHUNK_BACK = 2**13
# klarm writes no longer line, so a longer one is damage, and is skipped without being kept.
MAX_LINE_BYTES = 2**20
_STUB_BYTES = 64  # what readers get of such a line
# No batch is longer than this. If no batch begins within this distance, every line is valid.
_MAX_BATCH = 2**24


_MIN_EVENT_BYTES = 200  # no line of an event is shorter


class _Head(msgspec.Struct):
    lines: int = 0


class _Format(msgspec.Struct):
    format: int = 0


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_format = msgspec.json.Decoder(_Format).decode


@contextlib.contextmanager
def opened(journal: Stored) -> Iterator[IO[bytes]]:
    """Open a journal for reading; one that does not exist reads as empty."""
    if not isinstance(journal, Path):
        yield journal
    elif journal.is_file():  # a device or a pipe may be endless
        with journal.open("rb") as file:
            try:
                yield file
            except FormatError as error:
                error.filename = str(journal)
                raise
    else:
        yield io.BytesIO()


def whole_end(journal: Stored) -> int:
    """Return the offset where the last complete batch ends; readers ignore everything after it.

    A batch is a step, resume, finish or command line and the lines that belong to it. The last
    batch is incomplete while it is being written, and stays so if the process is killed meanwhile.
    """
    with opened(journal) as file:
        start = size = file.seek(0, os.SEEK_END)
        tail, chunk = b"", _FIRST_CHUNK_BACK
        while start > 0 and size - start < _MAX_BATCH:
            chunk = min(2 * chunk, start)
            start -= chunk
            file.seek(start)
            tail = file.read(chunk) + tail
            first = 0 if start == 0 else tail.find(b"\n") + 1
            last = tail.rfind(b"\n") + 1
            end = _end_of_last_batch(tail, first, last)
            if end is not None:
                return start + end
        return start + tail.rfind(b"\n") + 1


def _end_of_last_batch(tail: bytes, first: int, last: int) -> int | None:
    """Find the last line that begins a batch; return where the last complete batch ends."""
    following, end = 0, last
    while end > first:
        begin = max(tail.rfind(b"\n", first, end - 1) + 1, first)
        line = tail[begin : end - 1]
        if line.startswith(_HEADS) and checked(line) == "good":
            return last if _decode_head(line).lines <= following else begin
        following, end = following + 1, begin
    return None


def lines_between(file: IO[bytes], start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines between two offsets, without newline, each with the offset where it begins.

    The position of the file may change between two lines: other code may read or write meanwhile.
    """
    for at, lines, _ in chunks_between(file, start, end):
        for line in lines:
            yield at, line
            at += len(line) + 1  # noqa: PLW2901


def chunks_between(
    file: IO[bytes], start: int, end: int, size: int = _CHUNK_BYTES
) -> Iterator[tuple[int, list[bytes], int]]:
    """Yield the lines between two offsets in lists of about `size` bytes.

    Each list comes with the offsets where its first line begins and where its last one ends. Of a
    line that is too long, only the beginning is there, alone in its list.
    """
    rest = b""
    at = start  # where the next line to yield begins
    while at + len(rest) < end:
        file.seek(at + len(rest))
        chunk = file.read(min(size, end - at - len(rest)))
        if not chunk:
            return
        *lines, rest = (whole := rest + chunk).split(b"\n")
        begin, at = at, at + len(whole) - len(rest)
        yield begin, lines, at
        if len(rest) > MAX_LINE_BYTES:
            stub, rest = rest[:_STUB_BYTES], b""
            begin, at = at, _next_line(file, at + MAX_LINE_BYTES, end)
            yield begin, [stub], at


def _next_line(file: IO[bytes], start: int, end: int) -> int:
    """Return where the first line begins after an offset; at most the end."""
    file.seek(start)
    while start < end and (chunk := file.read(min(_CHUNK_BYTES, end - start))):
        if (found := chunk.find(b"\n")) >= 0:
            return start + found + 1
        start += len(chunk)
    return end


class FormatError(OSError):
    """A journal has another format than this version of klarm reads and writes."""

    def __init__(self, number: int) -> None:
        found = f"format {number}" if number else "an unknown format"
        super().__init__(
            errno.ENOTSUP,
            f"the journal has {found}, and this version of klarm has format {FORMAT} only",
        )

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}" if self.filename else str(self.strerror)


class Verifier:
    """Decides line by line, from the first on, which lines of a journal are valid.

    A line is valid if its checksum is right.
    """

    def __init__(self, on_damage: OnDamage | None = None) -> None:
        self.number = 0  # the number of the last line
        self.hidden = 0  # how many events the damaged lines may hide, at most
        self._on_damage = on_damage

    def passes(self, line: bytes) -> bool:
        """Return whether the next line is valid; report it if it is not, or raise FormatError."""
        self.number += 1
        verdict = checked(line) if len(line) <= MAX_LINE_BYTES else "bad"
        if line.startswith(RUN) and verdict != "bad":
            check_format(line)
        if verdict == "good":
            return True
        if not line.strip():  # a journal never begins with an empty line: it was overwritten
            return self._report("damaged", line) if self.number == 1 else False
        is_foreign = verdict == "none" and _is_json(line) and not line.startswith(RUN)
        return self._report("not by klarm" if is_foreign else "damaged", line)

    def skip(self, count: int) -> None:
        """Skip `count` lines that are known to have the right checksum."""
        self.number += count

    def _report(self, why: Damage, line: bytes) -> bool:
        self.hidden += 1 + len(line) // _MIN_EVENT_BYTES
        if self._on_damage is not None:
            self._on_damage(self.number, why)
        return False


def check_format(line: bytes) -> None:
    """Raise FormatError if a run line says that another version of klarm wrote the journal."""
    try:
        found = _decode_format(line).format
    except DECODE_ERRORS:
        return
    if found != FORMAT:
        raise FormatError(found)


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except DECODE_ERRORS:
        return False
    return True
