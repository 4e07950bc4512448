"""The lines of a journal as they lie on disk: how far they are whole, and which ones count."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Literal

import msgspec

from klarm.journal.checksum import checked
from klarm.journal.records import Started, decoded

# A journal to read: a file on disk, or an open one that is kept for a replay.
Stored = Path | IO[bytes]
Damage = Literal["damaged", "not by klarm", "incomplete"]
# Is given the number of a line that does not count, and why.
OnDamage = Callable[[int, Damage], None]

RUN = b'{"type":"run"'
_HEADS = (b'{"type":"step"', b'{"type":"resume"', b'{"type":"finish"', b'{"type":"command"')
_PIECE = 2**17
_FIRST_PIECE_BACK = 2**13
# No batch is longer than this; where no head is found within it, every line counts.
_MAX_BATCH = 2**24


class _Head(msgspec.Struct):
    lines: int = 0


_decode_head = msgspec.json.Decoder(_Head).decode


@contextlib.contextmanager
def opened(journal: Stored) -> Iterator[IO[bytes]]:
    """Open a journal for reading; one that does not exist has no lines."""
    if not isinstance(journal, Path):
        yield journal
    elif journal.is_file():  # a device or a pipe may have no end
        with journal.open("rb") as file:
            yield file
    else:
        yield io.BytesIO()


def whole_end(journal: Stored) -> int:
    """Return where the last complete batch ends: what lies beyond counts as not written.

    A batch is a step, resume, finish or command line and the lines that belong to it. The last
    one is incomplete while it is being written, or for good if the process was killed then.
    """
    with opened(journal) as file:
        start = size = file.seek(0, os.SEEK_END)
        tail, piece = b"", _FIRST_PIECE_BACK
        while start > 0 and size - start < _MAX_BATCH:
            piece = min(2 * piece, start)
            start -= piece
            file.seek(start)
            tail = file.read(piece) + tail
            first = 0 if start == 0 else tail.find(b"\n") + 1
            last = tail.rfind(b"\n") + 1
            end = _end_of_last_batch(tail, first, last)
            if end is not None:
                return start + end
        return start + tail.rfind(b"\n") + 1


def _end_of_last_batch(tail: bytes, first: int, last: int) -> int | None:
    """Look for the last head among whole lines; return where its batch, or the one before, ends."""
    following, end = 0, last
    while end > first:
        begin = max(tail.rfind(b"\n", first, end - 1) + 1, first)
        line = tail[begin : end - 1]
        if line.startswith(_HEADS):
            verdict = checked(line)
            if verdict == "none":  # klarm 0.1 wrote line by line
                return last
            if verdict == "good":
                return last if _decode_head(line).lines <= following else begin
        following, end = following + 1, begin
    return None


def lines_between(file: IO[bytes], start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines from an offset to another, without newline, each with where it begins.

    Others may read or write the same open file meanwhile.
    """
    for at, lines in pieces_between(file, start, end):
        for line in lines:
            yield at, line
            at += len(line) + 1  # noqa: PLW2901


def pieces_between(
    file: IO[bytes], start: int, end: int, size: int = _PIECE
) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the lines from an offset to another, many at once, with where the first begins.

    About as many at once as fit into `size` bytes.
    """
    rest = b""
    at = start  # where what is not yielded yet begins
    while at + len(rest) < end:
        file.seek(at + len(rest))
        piece = file.read(min(size, end - at - len(rest)))
        if not piece:
            return
        *lines, rest = (whole := rest + piece).split(b"\n")
        yield at, lines
        at += len(whole) - len(rest)


class Verifier:
    """Decides line by line, from the first on, which lines of a journal count.

    A line counts if its checksum is right. One without a checksum counts only where klarm 0.1
    wrote: before any line with one, and after a run line of format 1.
    """

    def __init__(self, on_damage: OnDamage | None = None) -> None:
        self.number = 0  # of the last line
        self.sealed = False  # whether lines have a checksum here
        self._on_damage = on_damage

    def passes(self, line: bytes) -> bool:
        """Return whether the next line counts; report it if it does not."""
        self.number += 1
        verdict = checked(line)
        if verdict == "good":
            self.sealed = True
            return True
        if not line.strip():  # no journal begins so: its first line was wiped out
            return self._report("damaged") if self.number == 1 else False
        if verdict == "bad":
            self.sealed = True
            return self._report("damaged")
        if line.startswith(RUN) and isinstance(record := decoded(line), Started):
            self.sealed = record.format > 1
            return self._report("damaged") if self.sealed else True
        if not _is_json(line):
            return self._report("damaged")
        return self._report("not by klarm") if self.sealed else True

    def skip(self, count: int) -> None:
        """Note that so many lines follow that are known to have the right checksum."""
        self.number += count
        self.sealed = True

    def _report(self, why: Damage) -> bool:
        if self._on_damage is not None:
            self._on_damage(self.number, why)
        return False


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
