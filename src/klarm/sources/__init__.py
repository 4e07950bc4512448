"""Logs that klarm can read after the fact, one file a format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from klarm.journal import FILE_NAME, Bound, Resume, Started, is_journal
from klarm.sources import csv, journal, jsonl
from klarm.sources.row import LogRow, SourceError

__all__ = ["LogRow", "SourceError", "read_log"]


def read_log(path: Path, say: Callable[[str], None]) -> Iterator[LogRow | Resume | Started | Bound]:
    """Yield the steps of a log: a CSV file, a JSON Lines file, a journal or a run's folder.

    Raises SourceError for what cannot be read; a line that cannot is passed over and said.
    """
    path = _file(path)
    if path.suffix.lower() == ".csv":
        return csv.read(path)
    if is_journal(path):
        return journal.read(path, say)
    return jsonl.read(path, say)


def _file(path: Path) -> Path:
    if path.is_dir():
        path = path / FILE_NAME
    if not path.exists():
        raise SourceError(f"{path} does not exist")
    if not path.is_file():
        raise SourceError(f"{path} is not a file; save what it gives to one first")
    return path
