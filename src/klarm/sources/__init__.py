"""Logs that klarm can read, after the fact or while they grow: one file a format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from klarm.journal import is_journal
from klarm.sources import document, journal
from klarm.sources.formats import READABLE, files_of, is_csv, reader_for
from klarm.sources.journal import Told
from klarm.sources.row import LogRow, SourceError

__all__ = ["READABLE", "LogRow", "SourceError", "Told", "read_log"]

_PIECE = 2**20


def read_log(path: Path, say: Callable[[str], None]) -> Iterator[LogRow | Told]:
    """Yield the steps of a log in any format, or of the folder of a run.

    Raises SourceError for what cannot be read; a line that cannot is passed over and said.
    """
    files = files_of(path)
    try:
        if is_journal(files[0]):
            return journal.read(files[0], say)
        if document.looks_like_one(files[0]) and (rows := document.read(files[0])) is not None:
            return iter(rows)
    except OSError as error:
        raise SourceError(f"{files[0]} cannot be read: {error.strerror}") from None
    return _read_files(path, files, say)


def _read_files(path: Path, files: list[Path], say: Callable[[str], None]) -> Iterator[LogRow]:
    rows = 0
    for file in files:
        try:
            for row in _read_file(file, say):
                rows += 1
                yield row
        except OSError as error:
            raise SourceError(f"{file} cannot be read: {error.strerror}") from None
    if rows == 0:
        wanted = "a CSV file has a header line and a row a step" if is_csv(path) else READABLE
        raise SourceError(f"{path} holds no rows: {wanted}")


def _read_file(path: Path, say: Callable[[str], None]) -> Iterator[LogRow]:
    reader = reader_for(path, say)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield from reader.feed(piece)
    yield from reader.end()
