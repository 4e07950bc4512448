"""The journal: one append-only JSON Lines file a run, the record of everything klarm saw.

The format is documented in docs/journal.md; users read it with jq.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from klarm.journal.appender import Appender
from klarm.journal.records import (
    Bound,
    Checkpoint,
    Record,
    Resume,
    Started,
    Step,
    decode,
    encode,
    encode_step,
)
from klarm.metrics import Origin, to_number
from klarm.settings import ConfigError
from klarm.types import Event

FILE_NAME = "journal.jsonl"
_LONGEST_NAME = 200  # bytes; file systems take 255

# One call of `log`: the step's number, and values by metric name.
Row = tuple[int, Mapping[str, float]]


class History(NamedTuple):
    """What a journal holds of a run so far."""

    rows: list[Row]  # that still count, each with what was new in it
    events: list[Event]  # that were told, all of them
    origins: dict[str, Origin]  # of metrics whose key is not their name, or whose kind is known
    checkpoints: Sequence[tuple[int, str]] = ()  # that were saved and not rolled back


class Journal(Protocol):
    """Where a monitor records a run."""

    @property
    def path(self) -> Path | None:
        """The file that people find it in, if there is one."""

    def step(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Record one step."""

    def record(self, record: Record) -> None:
        """Record anything else."""

    def history(self, metrics: Collection[str]) -> History | None:
        """Return what was recorded so far of these metrics; None if that is not known."""

    def close(self, timeout: float) -> None:
        """Have everything written, in at most so many seconds."""

    def abandon(self) -> None:
        """Let go of it in a forked process."""


class FileJournal:
    """The journal of a run on disk. Opening the folder of an earlier run continues its journal."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        """Open it for appending, or raise OSError, or InUseError."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE_NAME  # as people know it; the script may change its directory
        self._absolute = self.path.absolute()
        torn = _ends_in_torn_line(self.path)
        self._say = say
        self._appender = Appender(self.path, say)
        if torn:
            # The process that wrote it was killed; what follows must not be glued to it.
            self._appender.append(b"\n")

    def step(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Append one step."""
        self._appender.append(encode_step(step, time, values) + b"\n")

    def record(self, record: Record) -> None:
        """Append any other record."""
        self._appender.append(encode(record) + b"\n")

    def history(self, metrics: Collection[str]) -> History | None:
        """Read back what was recorded; None if the file does not hold it all."""
        if not self._appender.is_whole(timeout=1.0):
            return None
        return history(read_journal(self._absolute), metrics)

    def close(self, timeout: float) -> None:
        """Flush and close."""
        self._appender.close(timeout)
        if not os.path.exists(self._absolute):  # noqa: PTH110  # the other one raises
            self._say(f"{self.path} is gone: it was deleted while the run was recorded in it")

    def abandon(self) -> None:
        """Let go of the file, which the parent goes on with."""
        self._appender.abandon()


class MemoryJournal:
    """A journal that is not kept: for replays, which write nothing."""

    path = None

    def __init__(self) -> None:
        self.records: list[Record] = []

    def step(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Keep one step."""
        self.records.append(Step(step, time, values))

    def record(self, record: Record) -> None:
        """Keep any other record."""
        self.records.append(record)

    def history(self, metrics: Collection[str]) -> History | None:
        """Return what was recorded."""
        return history(self.records, metrics)

    def close(self, timeout: float) -> None:
        """Do nothing: there is nothing to write."""

    def abandon(self) -> None:
        """Do nothing: there is nothing to let go of."""


def run_folder(directory: str, run: str) -> Path:
    """Return where a run keeps its journal; refuse a name that is no folder name."""
    better = folder_name(run)
    if better != run:
        raise ConfigError(f"run {run!r:.300} cannot be the name of a folder; try {better!r}")
    try:
        return Path(directory).expanduser() / run
    except RuntimeError as error:
        raise ConfigError(f"dir {directory!r:.300} cannot be a folder: {error}") from None


def folder_name(run: str) -> str:
    """Return the nearest to a name that can be one of a folder.

    >>> folder_name("qwen/7b"), folder_name(".."), folder_name("../evil")
    ('qwen-7b', 'my-run', 'evil')
    """
    name = "".join(c if c.isprintable() and c not in "/\\" else "-" for c in run).lstrip(".")
    if name != run:  # what is suggested should not look like an option either
        name = name.lstrip(".-")
    return name.encode()[:_LONGEST_NAME].decode(errors="ignore") or "my-run"


def host_name() -> str:
    """Return this machine's name, for the first line of a journal."""
    import socket

    return socket.gethostname()


def read_journal(
    path: str | os.PathLike[str], on_skip: Callable[[int], None] | None = None
) -> Iterator[Record]:
    """Yield the records of a journal, passing over lines that are torn or of a later version.

    `on_skip` is told the number of each line that is no JSON.
    """
    if not Path(path).is_file():  # a device or a pipe may have no end
        return
    with Path(path).open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield decode(line)
            except msgspec.ValidationError:
                continue  # a type or a field that a later klarm knows
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                if on_skip is not None and line.strip():
                    on_skip(number)


def is_journal(path: str | os.PathLike[str]) -> bool:
    """Tell a journal from any other file, by the first record that can be read."""
    return isinstance(next(read_journal(path), None), Started)


def history(records: Iterable[Record], metrics: Collection[str]) -> History:
    """Return the calls of `log` that no later resume rolled back, and what else still holds.

    Of the calls, only these metrics: a long run has millions of values that no detector watches.
    """
    rows: list[Row] = []
    events: list[Event] = []
    origins: dict[str, Origin] = {}
    checkpoints: list[tuple[int, str]] = []
    seen: set[str] = set()  # at the last step
    for record in records:
        if isinstance(record, Step):
            if not rows or rows[-1][0] != record.step:
                seen = set()
            # Several dicts for one step are one step: what came first counts.
            values: dict[str, float] = {}
            for name in record.metrics.keys() & metrics:
                number = to_number(record.metrics[name])
                if number is not None and (name not in seen or not isfinite(number)):
                    values[name] = number
            seen.update(values)
            rows.append((record.step, values))
        elif isinstance(record, Resume):
            while rows and rows[-1][0] >= record.step:
                rows.pop()
            checkpoints = [saved for saved in checkpoints if saved[0] <= record.step]
        elif isinstance(record, Checkpoint):
            checkpoints.append((record.step, record.path))
        elif isinstance(record, Event):
            events.append(record)
        elif isinstance(record, Bound):
            origins.update(record.origins())
    return History(rows, events, origins, checkpoints)


def _ends_in_torn_line(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:  # not there, or empty
        return False
