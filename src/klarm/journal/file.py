"""The journal of a run as it is written: one append-only JSON Lines file.

The format is documented in docs/journal.md; users read it with jq.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol, cast

from klarm.descriptors import open_own
from klarm.journal.appender import Appender
from klarm.journal.checksum import checked, sealed
from klarm.journal.lines import MAX_LINE_BYTES, RUN, FormatError, Stored, whole_end
from klarm.journal.locks import Claim, InUseError, lock_of
from klarm.journal.reading import head_of, read_journal
from klarm.journal.records import (
    NOT_JSON,
    Record,
    Step,
    encode,
    encode_reduced,
    encode_step,
)
from klarm.settings import ConfigError
from klarm.types import Alert

FILE_NAME = "journal.jsonl"
_MAX_NAME = 200  # bytes; file systems allow 255
_MAX_IN_MEMORY = 16 * 2**20  # bytes; a longer journal of a replay goes to a temporary file
_MAX_LINE = 2**20


class Journal(Protocol):
    """Where a monitor records a run. Each call is one batch, written as a whole or not at all."""

    @property
    def path(self) -> Path | None:
        """The journal file as shown to people, if there is one."""

    def step(
        self, step: int, time: float, values: Mapping[str, float], also: Sequence[Record] = ()
    ) -> None:
        """Record one step, with the alerts and incident events that belong to it."""

    def record(self, record: Record, also: Sequence[Record] = ()) -> None:
        """Record anything else, with the records that belong to it."""

    def stored(self, *, complete: bool = True) -> Stored | None:
        """Return the stored journal; None if it does not hold everything recorded so far.

        With `complete=False`, the records of earlier processes are enough.
        """

    @property
    def end(self) -> int | None:
        """The offset at which the next batch begins; None if it is not known."""

    def close(self, timeout: float) -> None:
        """Write everything that is pending, within `timeout` seconds, and close."""

    def abandon(self) -> None:
        """Release the journal in a forked child without writing to it."""


class Batches:
    """Turns records into lines, and writes the lines of a batch together.

    A detector written by the user may put values into its alerts that JSON cannot hold. Such a
    record is written without them; the step and the other records are not affected.
    """

    _append: Callable[[bytes], object]  # writes the lines of one batch
    _say: Callable[[str], object]
    _has_reduced = False
    _has_said_too_long = False

    def step(
        self, step: int, time: float, values: Mapping[str, float], also: Sequence[Record] = ()
    ) -> None:
        """Append one step, with the records that belong to it."""
        lines = self._lines(also) if also else []
        try:
            head = sealed(encode_step(step, time, values, len(lines)))
        except NOT_JSON:
            head = self._line(Step(step, time, values), len(lines))
        if len(head) > MAX_LINE_BYTES:
            head = self._line(Step(step, time, {}), len(lines))
            self._say_once(
                f"step {step} has {len(values)} metrics, more than a line of the journal can hold "
                f"({MAX_LINE_BYTES >> 20} MiB): its values are not recorded, and detectors still "
                "judge them."
            )
        self._append(b"".join([head, *lines]) if lines else head)

    def record(self, record: Record, also: Sequence[Record] = ()) -> None:
        """Append any other record, with the records that belong to it."""
        lines = self._lines(also)
        self._append(b"".join([self._line(record, len(lines)), *lines]))

    def _lines(self, records: Sequence[Record]) -> list[bytes]:
        return [line for record in records if (line := self._line(record))]

    def _line(self, record: Record, lines: int = 0) -> bytes:
        """Return a record as a line; an empty one if it cannot be written even in part."""
        try:
            line = sealed(encode(record, lines))
        except NOT_JSON as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            if len(line) <= MAX_LINE_BYTES:
                return line
            self._report(record, f"cannot be recorded: {len(line):,} bytes are too long for a line")
            return b""
        with contextlib.suppress(*NOT_JSON):
            line = sealed(encode_reduced(record, lines))
            self._report(record, f"is recorded without values that JSON cannot hold ({reason})")
            return line
        self._report(record, f"cannot be recorded ({reason})")
        return b""

    def _report(self, record: Record, problem: str) -> None:
        if not self._has_reduced:
            self._has_reduced = True
            what = f"a line of type {record.__struct_config__.tag}"
            if isinstance(record, Alert):
                what = f"an alert by {record.detector}"
            self._say(f"{what} {problem:.300}. Training continues.")

    def _say_once(self, text: str) -> None:
        if not self._has_said_too_long:
            self._has_said_too_long = True
            self._say(text)


class FileJournal(Batches):
    """The journal of a run on disk. Opening the folder of an earlier run continues its journal."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        """Open the journal for appending, or raise OSError (also FormatError), or InUseError."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE_NAME  # for messages; the script may change its directory
        self._absolute = self.path.absolute()
        self._say = say
        self._appender = Appender(self.path, say, open_file=open_own)
        self._append = self._appender.append
        self._claim = self._claimed()
        try:
            head_of(self._absolute)
        except FormatError:
            self.abandon()
            raise
        self.repaired = ""  # a message about what was wrong with the end of the file
        self._mend()

    def stored(self, *, complete: bool = True) -> Stored | None:
        """Return the file; None if it must be complete but is not, as when the disk is full."""
        return self._absolute if not complete or self._appender.is_whole(timeout=1.0) else None

    @property
    def end(self) -> int | None:
        """The offset at which the next batch begins, once earlier ones are on disk."""
        return self._appender.end

    def close(self, timeout: float) -> None:
        """Flush and close."""
        self._appender.close(timeout)
        self._claim.release()
        if not os.path.exists(self._absolute):  # noqa: PTH110  # Path.exists may raise
            self._say(f"{self.path} is gone: it was deleted while the run was being recorded")

    def abandon(self) -> None:
        """Close the file in a forked child without writing: the parent keeps using it."""
        self._appender.abandon()
        self._claim.abandon()

    def _claimed(self) -> Claim:
        """Claim the run for this process, or raise InUseError if another one is recording it."""
        claim = Claim.on(lock_of(self._absolute))
        if claim is None:
            self._appender.abandon()
            raise InUseError
        if claim.doubt:
            self._say(
                f"{claim.doubt}: klarm cannot tell whether another process is recording this run, "
                "and records it anyway"
            )
        return claim

    def _mend(self) -> None:
        """Remove the incomplete batch that a killed process left: readers ignore it anyway.

        What nothing shows to be klarm's is not removed, but gets a newline.
        """
        if not self._absolute.is_file():
            return
        end, size = whole_end(self._absolute), self._absolute.stat().st_size
        if end == size:
            return
        self.repaired = (
            f"the end of {self.path} was incomplete ({size - end} bytes) and is ignored: the last "
            "process was killed while writing, or the file is damaged"
        )
        with self._absolute.open("rb") as file:
            file.seek(max(0, end - _MAX_LINE))
            last = file.read(min(end, _MAX_LINE)).rstrip(b"\n").rpartition(b"\n")[2]
            torn = file.read(_MAX_LINE).partition(b"\n")[0]
        if checked(last) != "none" or checked(torn) != "none" or (not end and torn[:13] == RUN):
            self._appender.cut(end)
        else:
            self._appender.append(b"\n")


class MemoryJournal(Batches):
    """A temporary journal, for replays. A long one moves from memory to a temporary file."""

    path = None

    def __init__(self) -> None:
        import tempfile

        self._say = lambda _: None
        file = tempfile.SpooledTemporaryFile(max_size=_MAX_IN_MEMORY)  # noqa: SIM115
        self._file = cast("IO[bytes]", file)
        weakref.finalize(self, file.close)

        def append(lines: bytes) -> None:
            file.seek(0, os.SEEK_END)  # a reader may have moved the position
            file.write(lines)

        self._append = append

    @property
    def records(self) -> list[Record]:
        """All records as a list in memory, for tests and short runs."""
        return list(read_journal(self._file))

    @property
    def end(self) -> int:
        """The offset at which the next batch begins."""
        return self._file.seek(0, os.SEEK_END)

    def stored(self, *, complete: bool = True) -> Stored:  # noqa: ARG002
        """Return the file, which is always complete."""
        return self._file

    def close(self, timeout: float) -> None:
        """Do nothing: the journal is still read after the replay."""

    def abandon(self) -> None:
        """Do nothing: no file is shared with a parent process."""


def run_folder(directory: str, run: str) -> Path:
    """Return the folder of a run; raise ConfigError if its name is not a valid folder name."""
    better = folder_name(run)
    if better != run:
        raise ConfigError(f"run {run!r:.300} cannot be the name of a folder; try {better!r}")
    try:
        return Path(directory).expanduser() / run
    except RuntimeError as error:
        raise ConfigError(f"dir {directory!r:.300} cannot be a folder: {error}") from None


def folder_name(run: str) -> str:
    """Return the valid folder name that is closest to the name of a run.

    >>> folder_name("qwen/7b"), folder_name(".."), folder_name("../evil")
    ('qwen-7b', 'my-run', 'evil')
    """
    name = "".join(c if c.isprintable() and c not in "/\\" else "-" for c in run).lstrip(".")
    if name != run:  # a suggested name should not look like a command-line option either
        name = name.lstrip(".-")
    return name.encode()[:_MAX_NAME].decode(errors="ignore") or "my-run"


def host_name() -> str:
    """Return this machine's name, for the first line of a journal."""
    import socket

    return socket.gethostname()
