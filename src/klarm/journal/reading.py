"""Reads a journal from its beginning, and recognizes journals among other files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from klarm.journal.checksum import checked
from klarm.journal.lines import (
    MAX_LINE_BYTES,
    FormatError,
    OnDamage,
    Stored,
    Verifier,
    lines_between,
    opened,
    whole_end,
)
from klarm.journal.records import Record, Started, decoded
from klarm.journal.search import run_lines
from klarm.types import Command

_FIRST_READ_BYTES = 2**12  # most lines are shorter
_MAX_BEGINNING = 2**20  # bytes within which a journal must be recognizable


def read_journal(
    journal: str | os.PathLike[str] | IO[bytes], on_damage: OnDamage | None = None
) -> Iterator[Record]:
    """Yield the records of a journal. Record types of later versions of klarm are skipped.

    `on_damage` is called with the number of each line that is ignored, and why: it is "damaged",
    "not by klarm", or the first line of an "incomplete" batch at the end.
    """
    stored: Stored = Path(journal) if isinstance(journal, str | os.PathLike) else journal
    with opened(stored) as file:
        verifier, end = Verifier(on_damage), whole_end(file)
        for _, line in lines_between(file, 0, end):
            if verifier.passes(line) and (record := decoded(line)) is not None:
                yield record
        if on_damage is not None and file.seek(0, os.SEEK_END) > end:
            on_damage(verifier.number + 1, "incomplete")


def record_at(file: IO[bytes], begin: int) -> Record | None:
    """Return the record whose line begins at an offset; None if there is no valid line."""
    file.seek(begin)
    data, size = b"", _FIRST_READ_BYTES
    while (end := data.find(b"\n")) < 0 and len(data) <= MAX_LINE_BYTES:
        piece = file.read(size)
        if not piece:
            return None
        data, size = data + piece, 2 * size
    line = data[:end]
    return decoded(line) if checked(line) == "good" else None


def is_journal(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like a journal, of any format, even if damaged there."""
    try:
        return _begins_like_a_journal(Path(path))
    except FormatError:
        return True


def head_of(journal: Path) -> Started | None:
    """Return the first line of a run's journal; None if the file is not a journal.

    Raises FormatError if its format is another one.

    If that line is damaged, the folder gives the name of the run, and the next readable run line
    gives the rest. If there is none, the run began at time 0.
    """
    if not _begins_like_a_journal(journal):
        return None
    begin, first = next(run_lines(journal), (0, None))
    if begin == 0 and first is not None:
        return first
    if first is None:
        first = Started("", 0.0, "", "", {})
    return msgspec.structs.replace(first, run=journal.absolute().parent.name)


def _begins_like_a_journal(path: Path) -> bool:
    """Return whether a file does; raise FormatError if its format is another one."""
    with opened(path) as file:
        verifier, end = Verifier(), min(_MAX_BEGINNING, file.seek(0, os.SEEK_END))
        for _, line in lines_between(file, 0, end):
            if verifier.passes(line) and (record := decoded(line)) is not None:
                has_lost_its_head = verifier.number > 1 and not isinstance(record, Command)
                return isinstance(record, Started) or has_lost_its_head
    return False
