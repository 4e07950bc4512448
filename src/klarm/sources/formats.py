"""Which format a log is in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from klarm.journal import FILE_NAME
from klarm.sources import csv, document, jsonl, tensorboard, text
from klarm.sources.lines import LineReader
from klarm.sources.row import Reader, SourceError

READABLE = (
    "klarm reads CSV (*.csv), JSON Lines, TensorBoard event files and their folder, "
    "trainer_state.json, JSON keyed by step, printed dicts, verl's console lines and its own "
    "journals"
)
FOLLOWABLE = (
    "klarm follow reads CSV (*.csv), JSON Lines, TensorBoard event files and their folder, "
    "trainer_state.json, JSON keyed by step, printed dicts and verl's console lines"
)


def is_csv(path: Path) -> bool:
    """Tell by the name: the first line of anything may have commas."""
    return path.suffix.lower() == ".csv"


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


def reader_for(path: Path, say: Callable[[str], None]) -> Reader:
    """Return what reads a file piece by piece: any format but documents and journals."""
    if tensorboard.is_event_file(path):
        return tensorboard.EventReader(str(path), say)
    if is_csv(path):
        return LineReader(str(path), csv.Parser(), say)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return LineReader(str(path), jsonl.parse, say)
    return LineReader(str(path), text.Parser(), say)
