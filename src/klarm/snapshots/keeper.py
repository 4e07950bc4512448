"""The snapshots of a run: the newest in memory, more of them on disk, written on a thread."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import zlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from klarm.boundary import never_raises
from klarm.journal import Fold, resume_lines
from klarm.notices import Notices, ReportsFailures
from klarm.snapshots.file import (
    EVERY_ROWS,
    Place,
    Snapshot,
    SnapshotFolder,
    StoredSnapshot,
    checksums,
    pack,
)
from klarm.snapshots.graph import UnfitError

_IN_MEMORY: Final = 3
# No more than one is written in this time. Training takes longer for 2,000 rows; where they come by
# the thousand per second, as in a replay, the thread would compete for the interpreter.
_MIN_SECONDS: Final = 10.0
# The thread reads the journal in pieces, with pauses: the interpreter belongs to training. A piece
# of this size takes it a millisecond or two; of smaller ones, it would get in the way more often.
_PIECE: Final = 2**17
_PAUSE_SECONDS: Final = 0.001
_CHECKSUM_PIECE: Final = 2**20
_MAX_BEHIND, _MAX_WAITING = 4, 64  # snapshots, of some 40 kB each
_CLOSING_SECONDS: Final = 3.0
# How long it waits for lines that are not on disk yet.
_PATIENCE_SECONDS: Final = 5.0

_DONE: Final = object()

Lines = tuple[int, int]  # that are damaged: how many, and the number of the first


class Keeper:
    """Keeps the snapshots of one run, and finds the one to go back to.

    Without a journal on disk they are in memory only.
    """

    def __init__(self, journal: Path | None, notices: Notices, every: int = EVERY_ROWS) -> None:
        self._journal = None if journal is None else journal.absolute()
        self._folder = None if journal is None else SnapshotFolder(journal.parent, every)
        self._notices = notices
        self._in_memory: deque[Snapshot] = deque(maxlen=_IN_MEMORY)
        self._earlier: list[Place] = []  # files of earlier processes whose journal is this one
        self._crc = (0, 0)  # of the journal, and up to where
        self.rows = 0  # that the newest snapshot of an earlier process is of
        self._writer: _Writer | None = None
        # Whoever wants them at fewer rows, as tests do, wants them all.
        self._min_seconds = _MIN_SECONDS if every >= EVERY_ROWS else 0.0
        self._unwritten: Snapshot | None = None  # the newest, if it is in memory only
        self._written_at = time.monotonic()

    def newest_stored(self) -> StoredSnapshot | None:
        """Return the newest of earlier processes that fits the journal as it is.

        Those that do not are deleted: they never will.
        """
        if self._folder is None or self._journal is None:
            return None
        places = self._folder.places()
        if not places:
            return None
        self.rows = places[0].rows
        try:
            crcs = checksums(self._journal, [place.offset for place in places])
        except OSError:  # whoever reads the journal next says so
            return None
        found: StoredSnapshot | None = None
        for place in places:
            try:
                stored = self._folder.read(place)
                if crcs.get(place.offset) != stored.crc:
                    raise UnfitError("the journal is not the one that it was made of")
            except UnfitError as error:
                self.report(place.path.name, error)
                self._folder.delete(place)
                continue
            self._earlier.append(place)
            if found is None:
                found, self._crc = stored, (stored.crc, place.offset)
        return found

    def take(self, snapshot: Snapshot, fold: SharedFold) -> None:
        """Keep a snapshot; have it written. For the training thread."""
        self._in_memory.append(snapshot)
        if self._folder is None or self._journal is None:
            return
        if self._writer is None:
            self._writer = _Writer(self._journal, self._folder, fold, self._crc, self._notices)
        self._unwritten = snapshot
        if time.monotonic() - self._written_at >= self._min_seconds:
            self._write()

    def _write(self) -> None:
        if self._writer is not None and self._unwritten is not None:
            self._writer.put(self._unwritten)
        self._unwritten, self._written_at = None, time.monotonic()

    @property
    def oldest(self) -> int:
        """Where in the journal the oldest one in memory belongs; at the start until they are full.

        Before the first snapshots, a run is rebuilt from its first row.
        """
        return self._in_memory[0].offset if len(self._in_memory) == _IN_MEMORY else 0

    def before(self, step: int) -> Iterator[Snapshot]:
        """Yield the snapshots from before a step that still count, the newest first."""
        held = {snapshot.offset for snapshot in self._in_memory}
        for snapshot in reversed(self._in_memory):
            if snapshot.step < step:
                yield snapshot
        if self._folder is None or self._journal is None:
            return
        known = [*(self._writer.written if self._writer else ()), *self._earlier]
        for place in sorted(known, reverse=True):
            if place.offset in held or place.step >= step:
                continue
            try:
                snapshot = self._folder.read(place).snapshot
            except UnfitError as error:
                if place.path.exists():
                    self.report(place.path.name, error)
                continue
            resumes = (resume.step for _, resume in resume_lines(self._journal, place.offset))
            if min(resumes, default=step) > place.step:
                yield snapshot

    def forget_from(self, step: int) -> None:
        """Let those go that are of a step or later: training goes on there."""
        kept = [snapshot for snapshot in self._in_memory if snapshot.step < step]
        self._in_memory = deque(kept, maxlen=_IN_MEMORY)
        if self._unwritten is not None and self._unwritten.step >= step:
            self._unwritten = None
        self._earlier = [place for place in self._earlier if place.step < step]
        if self._writer is not None:
            self._writer.put(step)
        elif self._folder is not None:
            self._folder.delete_from(step)

    def report(self, name: str, error: UnfitError) -> None:
        """Say that a snapshot is of no use; the journal is, so nothing is lost but time."""
        self._notices.warn(
            f"snapshot {name} is not used ({error!s:.200}); the journal is read instead"
        )

    def close(self, timeout: float) -> None:
        """Have the newest written, and end the thread."""
        self._write()
        if self._writer is not None:
            self._writer.close(timeout)


class SharedFold:
    """What the journal amounts to, for two threads: the one that trains, and the one that writes.

    Whoever reads or changes the fold holds the lock.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.fold: Fold | None = None
        self.damaged: Lines = (0, 0)


class _Writer(ReportsFailures):
    """The thread that brings the fold to a snapshot's place and writes both."""

    def __init__(
        self,
        journal: Path,
        folder: SnapshotFolder,
        fold: SharedFold,
        crc: tuple[int, int],
        notices: Notices,
    ) -> None:
        self._journal, self._folder, self._fold = journal, folder, fold
        self.notices = notices
        self._crc, self._crc_to = crc
        self.written: list[Place] = []  # and not deleted since
        self._own: set[int] = set()  # offsets
        self._has_failed = False
        # A snapshot to write, a step from which on snapshots no longer count, or the end.
        self._jobs: queue.SimpleQueue[Snapshot | int | None] = queue.SimpleQueue()
        self._closing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="klarm-snapshots", daemon=True)
        # RuntimeError: no more threads to be had; then there are those in memory.
        with contextlib.suppress(RuntimeError):
            self._thread.start()

    def put(self, job: Snapshot | int) -> None:
        is_stuck = isinstance(job, Snapshot) and self._jobs.qsize() >= _MAX_WAITING
        if self._thread.is_alive() and not is_stuck:
            self._jobs.put(job)

    def close(self, timeout: float) -> None:
        """Have what waits written, if that does not take long."""
        self._closing = True
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join(min(timeout, _CLOSING_SECONDS))
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            self._try(job)

    def _next(self) -> Snapshot | int | None:
        """Return what to do next. Rows may come faster than it reads: then the latest count."""
        job = self._jobs.get()
        while isinstance(job, Snapshot) and self._jobs.qsize() >= _MAX_BEHIND:
            job = self._jobs.get()
        return job

    @never_raises(lambda: None)
    def _try(self, job: Snapshot | int) -> None:
        try:
            self._do(job)
        except (OSError, UnfitError) as error:
            self._report(error)

    def _do(self, job: Snapshot | int) -> None:
        if isinstance(job, int):
            self.written = [place for place in self.written if place.step < job]
            self._folder.delete_from(job)
            return
        if not self._wait_for(job.offset) or not self._advance(job.offset):
            return
        with self._fold.lock:
            fold = self._fold.fold
            if fold is None or fold.read_to != job.offset:
                return  # training went back meanwhile, and has read further
            stored = StoredSnapshot(job, fold.saved(), self._crc, *self._fold.damaged)
            content = pack(stored)
        self._own.add(job.offset)
        self._folder.write(job, content)
        self.written = [place for place in self._folder.places() if place.offset in self._own]

    def _wait_for(self, offset: int) -> bool:
        """Wait until the journal is written up to there: a slow disk has a queue of its own."""
        waited = 0.0
        while self._journal.stat().st_size < offset:
            waited += 0.05
            if waited > _PATIENCE_SECONDS or self._stopping.wait(0.05):
                return False
        return True

    def _advance(self, offset: int) -> bool:
        """Bring checksum and fold to a place, piece by piece; return whether both got there."""
        with self._journal.open("rb", buffering=0) as file:
            file.seek(self._crc_to)
            while self._crc_to < offset:
                piece = file.read(min(_CHECKSUM_PIECE, offset - self._crc_to))
                if not piece or self._stopping.is_set():
                    return False
                self._crc, self._crc_to = zlib.crc32(piece, self._crc), self._crc_to + len(piece)
        fold = self._fold.fold
        if fold is None:
            return False
        for _ in self._taking_turns(fold.update_slowly(offset, _PIECE)):
            if not self._closing:  # else nobody else needs the interpreter
                self._stopping.wait(_PAUSE_SECONDS)
            if self._stopping.is_set() or self._fold.fold is not fold:
                return False
        return fold.read_to == offset

    def _taking_turns(self, pieces: Iterator[None]) -> Iterator[None]:
        """Yield what another iterator does, each step of it under the lock."""
        while True:
            with self._fold.lock:
                if next(pieces, _DONE) is _DONE:
                    return
            yield

    def _report(self, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            self.notices.warn(
                f"no snapshot of {self._journal.parent} could be written ({error!s:.200}): "
                "to go back or to resume takes longer"
            )
