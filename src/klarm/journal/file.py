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
from klarm.journal.lines import RUN, Stored, whole_end
from klarm.journal.locks import Claim, InUseError, lock_of
from klarm.journal.reading import read_journal
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
_MAX_NAME = 200  # bytes; file systems take 255
_MAX_IN_MEMORY = 16 * 2**20  # bytes of a replay's journal; the rest goes to a temporary file
_MAX_LINE = 2**20


class Journal(Protocol):
    """Where a monitor records a run. Each call is one batch: it is written as a whole."""

    @property
    def path(self) -> Path | None:
        """The file that people find it in, if there is one."""

    def step(
        self, step: int, time: float, values: Mapping[str, float], also: Sequence[Record] = ()
    ) -> None:
        """Record one step, and the alerts and changes of incidents that belong to it."""

    def record(self, record: Record, also: Sequence[Record] = ()) -> None:
        """Record anything else, and what belongs to it."""

    def stored(self, *, complete: bool = True) -> Stored | None:
        """Return what holds everything that was recorded so far; None if nothing does.

        Unless it must be complete, what earlier processes recorded is enough.
        """

    @property
    def end(self) -> int | None:
        """Where what is recorded next begins; None if that is not known."""

    def close(self, timeout: float) -> None:
        """Have everything written, in at most so many seconds."""

    def abandon(self) -> None:
        """Let go of it in a forked process."""


class Batches:
    """Turns records into lines, and has those of a batch written at once.

    What a detector of the user's own says may be no JSON. Such a record is reduced to what can be
    written; it costs neither the step nor the other records.
    """

    _append: Callable[[bytes], object]  # writes the lines of one batch
    _say: Callable[[str], object]
    _has_reduced = False

    def step(
        self, step: int, time: float, values: Mapping[str, float], also: Sequence[Record] = ()
    ) -> None:
        """Append one step, and what belongs to it."""
        lines = self._lines(also) if also else []
        try:
            head = sealed(encode_step(step, time, values, len(lines)))
        except NOT_JSON:
            head = self._line(Step(step, time, values), len(lines))
        self._append(b"".join([head, *lines]) if lines else head)

    def record(self, record: Record, also: Sequence[Record] = ()) -> None:
        """Append any other record, and what belongs to it."""
        lines = self._lines(also)
        self._append(b"".join([self._line(record, len(lines)), *lines]))

    def _lines(self, records: Sequence[Record]) -> list[bytes]:
        return [line for record in records if (line := self._line(record))]

    def _line(self, record: Record, lines: int = 0) -> bytes:
        """Return a record as a line; as none at all if nothing of it can be written."""
        try:
            return sealed(encode(record, lines))
        except NOT_JSON as error:
            reason = f"{type(error).__name__}: {error}"
        with contextlib.suppress(*NOT_JSON):
            line = sealed(encode_reduced(record, lines))
            self._report(record, f"is recorded without what JSON cannot hold ({reason})")
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


class FileJournal(Batches):
    """The journal of a run on disk. Opening the folder of an earlier run continues its journal."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        """Open it for appending, or raise OSError, or InUseError."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE_NAME  # as people know it; the script may change its directory
        self._absolute = self.path.absolute()
        self._say = say
        self._appender = Appender(self.path, say, open_file=open_own)
        self._append = self._appender.append
        self._claim = self._claimed()
        self.mended = ""  # what was wrong with its end, for people
        self._mend()

    def stored(self, *, complete: bool = True) -> Stored | None:
        """Return the file; None if it must be complete and is not: the disk may be full."""
        return self._absolute if not complete or self._appender.is_whole(timeout=1.0) else None

    @property
    def end(self) -> int | None:
        """Where the next batch begins, once those before it are on disk."""
        return self._appender.end

    def close(self, timeout: float) -> None:
        """Flush and close."""
        self._appender.close(timeout)
        self._claim.release()
        if not os.path.exists(self._absolute):  # noqa: PTH110  # the other one raises
            self._say(f"{self.path} is gone: it was deleted while the run was recorded in it")

    def abandon(self) -> None:
        """Let go of the file, which the parent goes on with."""
        self._appender.abandon()
        self._claim.abandon()

    def _claimed(self) -> Claim:
        """Return the claim of this process to record the run, or raise InUseError."""
        claim = Claim.on(lock_of(self._absolute))
        if claim is None:
            self._appender.abandon()
            raise InUseError
        if claim.doubt:
            self._say(
                f"{claim.doubt}: klarm cannot tell whether another process records this run, and "
                "records it all the same"
            )
        return claim

    def _mend(self) -> None:
        """Remove what a killed process left incomplete: readers have never counted it.

        A torn line of klarm 0.1 is ended instead, as klarm 0.1 does it.
        """
        if not self._absolute.is_file():
            return
        end, size = whole_end(self._absolute), self._absolute.stat().st_size
        if end == size:
            return
        self.mended = (
            f"the end of {self.path} was incomplete ({size - end} bytes) and does not count: the "
            "last process was killed while it wrote, or the file is damaged"
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
    """A journal that is not kept: for replays. A long one goes to a temporary file."""

    path = None

    def __init__(self) -> None:
        import tempfile

        self._say = lambda _: None
        file = tempfile.SpooledTemporaryFile(max_size=_MAX_IN_MEMORY)  # noqa: SIM115
        self._file = cast("IO[bytes]", file)
        weakref.finalize(self, file.close)

        def append(lines: bytes) -> None:
            file.seek(0, os.SEEK_END)  # somebody may have read
            file.write(lines)

        self._append = append

    @property
    def records(self) -> list[Record]:
        """Everything that was recorded, all in memory: for tests and short runs."""
        return list(read_journal(self._file))

    @property
    def end(self) -> int:
        """Where the next batch begins."""
        return self._file.seek(0, os.SEEK_END)

    def stored(self, *, complete: bool = True) -> Stored:  # noqa: ARG002
        """Return what holds it, which is always complete."""
        return self._file

    def close(self, timeout: float) -> None:
        """Do nothing: it is read afterwards."""

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
    return name.encode()[:_MAX_NAME].decode(errors="ignore") or "my-run"


def host_name() -> str:
    """Return this machine's name, for the first line of a journal."""
    import socket

    return socket.gethostname()
