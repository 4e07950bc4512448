"""Recognises the format of a log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from klarm.journal import FILE_NAME
from klarm.sources import csv, document, jsonl, tensorboard, text
from klarm.sources.lines import LineReader, Parse
from klarm.sources.row import LogRow, Reader, SourceError, StepColumn

READABLE = (
    "klarm reads CSV and TSV, JSON Lines, TensorBoard event files and their folder, "
    "trainer_state.json, JSON keyed by step, printed dicts, verl's console lines and its own "
    "journals; also compressed with gzip, or from stdin as -"
)
FOLLOWABLE = (
    "klarm follow reads CSV and TSV, JSON Lines, TensorBoard event files and their folder, "
    "trainer_state.json, JSON keyed by step, printed dicts and verl's console lines; also from "
    "stdin, as -"
)


def is_csv(path: Path) -> bool:
    """Return whether a file is a table, by its name."""
    return path.suffix.lower() in (".csv", ".tsv")


def files_of(path: Path) -> list[Path]:
    """Return the files that make up a log: of a folder, its journal, state or event files."""
    if not path.exists():
        raise SourceError(f"{path} does not exist")
    if not path.is_dir():
        if not path.is_file():
            raise SourceError(f"{path} is not a file; save what it gives to one first")
        return [path]
    for name in (FILE_NAME, document.TRAINER_STATE):
        if (path / name).is_file():
            return [path / name]
    if files := tensorboard.event_files(path):
        return files
    raise SourceError(
        f"{path} holds neither a {FILE_NAME} nor TensorBoard event files nor a "
        f"{document.TRAINER_STATE}; {READABLE}"
    )


def reader_for(path: Path, say: Callable[[str], None], step_column: str = "") -> Reader:
    """Return a reader for a file, of any format except documents and journals."""
    steps = StepColumn(step_column)
    if tensorboard.is_event_file(path):
        return tensorboard.EventReader(str(path), say)
    if is_csv(path):
        return LineReader(str(path), csv.Parser(steps), say)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return LineReader(str(path), jsonl.Parser(steps), say)
    return LineReader(str(path), _TextOrTable(steps), say)


class _TextOrTable:
    """Reads a file of unknown format: a table if its first line is a header, otherwise text."""

    def __init__(self, steps: StepColumn) -> None:
        self._steps = steps
        self._parse: Parse | None = None

    def __call__(self, line: str) -> LogRow | None:
        if self._parse is None:
            kind = csv if csv.is_header(line, self._steps) else text
            self._parse = kind.Parser(self._steps)
        return self._parse(line)
