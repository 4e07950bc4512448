"""Logs that are compressed with gzip or come from stdin, and are read from a copy."""

from __future__ import annotations

import gzip
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

from klarm.sources.row import SourceError

STDIN = Path("-")
_NAME_OF_STDIN = "stdin"
_MAGIC = b"\x1f\x8b"
_PIECE = 2**20


class PlainLog(NamedTuple):
    """A log that can be opened, and a function that reports problems under its original name."""

    path: Path
    say: Callable[[str], None]
    ended: Callable[[], bool]  # returns whether the log is complete


def is_compressed(path: Path) -> bool:
    """Return whether a file is compressed with gzip, by its first bytes; raises OSError."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


@contextmanager
def plain_log(
    log: Path, say: Callable[[str], None], *, growing: bool = False
) -> Iterator[PlainLog]:
    """Provide a log as a plain file or folder.

    stdin is copied completely first or, if the log is followed while it grows, by a thread.
    """
    from_stdin = log == STDIN
    if not from_stdin and (growing or not _is_gzip(log)):
        yield PlainLog(log, say, lambda: False)
        return
    name = _NAME_OF_STDIN if from_stdin else str(log)
    with TemporaryDirectory(prefix="klarm-") as folder:
        copy = Path(folder) / (_NAME_OF_STDIN if from_stdin else log.with_suffix("").name)

        def named(text: str) -> str:
            return text.replace(str(copy), name)

        try:
            if from_stdin:
                ended = _copied_stdin(copy, growing)
                if not growing and is_compressed(copy):
                    packed = copy.rename(copy.with_name("packed"))
                    ended = _unpacked(
                        packed, copy, lambda text: say(text.replace(str(packed), name))
                    )
            else:
                ended = _unpacked(log, copy, say)
            yield PlainLog(copy, lambda message: say(named(message)), ended)
        except SourceError as error:
            raise SourceError(named(str(error))) from None


def _is_gzip(log: Path) -> bool:
    try:
        compressed = is_compressed(log)
    except OSError:
        return False  # the reader reports it
    if log.suffix.lower() == ".gz" and log.is_file() and not compressed:
        raise SourceError(f"{log} is not a gzip file")
    return compressed


def _unpacked(log: Path, copy: Path, say: Callable[[str], None]) -> Callable[[], bool]:
    with copy.open("wb") as plain:
        try:
            with gzip.open(log) as packed:
                # read1 returns the data before a damaged place, which would be lost otherwise.
                while piece := packed.read1(_PIECE):
                    _write(plain, piece)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            say(f"{log} is damaged or incomplete; only the part before that is read")
        except OSError as error:
            raise SourceError(f"{log} cannot be read: {error.strerror}") from None
    return lambda: True


def _copied_stdin(copy: Path, growing: bool) -> Callable[[], bool]:
    done = threading.Event()

    def copy_all() -> None:
        try:
            with copy.open("ab", buffering=0) as plain:
                last = b"\n"
                while piece := os.read(sys.stdin.fileno(), _PIECE):
                    _write(plain, piece)
                    last = piece
                # The last line is complete; compressed logs have no lines.
                if not last.endswith(b"\n") and (growing or not is_compressed(copy)):
                    _write(plain, b"\n")
        finally:
            done.set()

    copy.touch()
    if growing:
        threading.Thread(target=copy_all, name="klarm-stdin", daemon=True).start()
    else:
        copy_all()
    return done.is_set


def _write(file: IO[bytes], piece: bytes) -> None:
    try:
        file.write(piece)
    except OSError as error:
        raise SourceError(f"cannot copy to {file.name}: {error.strerror}") from None
