"""Logs that klarm can read, when they are complete or while they grow: one file per format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from klarm.journal import is_journal
from klarm.sources import document, journal
from klarm.sources.copied import STDIN, PlainLog, plain_log
from klarm.sources.formats import READABLE, files_of, is_csv, reader_for
from klarm.sources.journal import OtherRecord
from klarm.sources.row import LogRow, Reader, SourceError

__all__ = [
    "READABLE",
    "STDIN",
    "LogRow",
    "OtherRecord",
    "PlainLog",
    "SourceError",
    "plain_log",
    "read_log",
]

_PIECE = 2**20


def read_log(
    path: Path,
    say: Callable[[str], None],
    step_column: str = "",
    on_bytes: Callable[[int], object] = lambda _: None,
) -> Iterator[LogRow | OtherRecord]:
    """Yield the steps of a log in any format, or of the folder of a run.

    `step_column` names the step column, if klarm does not know its name. `on_bytes` is called with
    the number of bytes read, if the log is read in pieces. A log that cannot be read raises
    SourceError; a line that cannot be read is skipped and reported.
    """
    files = files_of(path)
    try:
        if is_journal(files[0]):
            return journal.read(files[0], say)
        if document.looks_like_one(files[0]):
            rows = document.read(files[0], step_column)
            if rows is not None:
                return iter(rows)
    except OSError as error:
        raise SourceError(f"{files[0]} cannot be read: {error.strerror}") from None
    readers = [(file, reader_for(file, say, step_column)) for file in files]
    return _read_files(path, readers, on_bytes)


def _read_files(
    path: Path, readers: Iterable[tuple[Path, Reader]], on_bytes: Callable[[int], object]
) -> Iterator[LogRow]:
    rows = 0
    for file, reader in readers:
        try:
            for row in _read_file(file, reader, on_bytes):
                rows += 1
                yield row
        except OSError as error:
            raise SourceError(f"{file} cannot be read: {error.strerror}") from None
    if rows == 0:
        wanted = "a table has a header line and one row per step" if is_csv(path) else READABLE
        raise SourceError(f"{path} holds no rows: {wanted}")


def _read_file(path: Path, reader: Reader, on_bytes: Callable[[int], object]) -> Iterator[LogRow]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            on_bytes(len(piece))
            yield from reader.feed(piece)
    yield from reader.end()
