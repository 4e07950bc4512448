"""Keeps the snapshots of a run: the newest in memory, more on disk, written by a thread."""

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
    CHECKSUM_CHUNK,
    EVERY_ROWS,
    Place,
    Snapshot,
    SnapshotFolder,
    StoredSnapshot,
    checksums,
    pack,
)
from klarm.snapshots.state import UnfitError

_IN_MEMORY: Final = 3
# At most one snapshot is written per this time. Training takes longer for 2,000 rows. In a replay,
# thousands of rows arrive per second, and the thread would compete for the GIL.
_MIN_SECONDS: Final = 10.0
# The thread reads the journal in chunks and pauses in between to leave the GIL to training. A chunk
# of this size takes less than a millisecond; smaller ones would interrupt training more often.
_CHUNK: Final = 2**16
_PAUSE_SECONDS: Final = 0.001
_MAX_BEHIND, _MAX_WAITING = 4, 64  # snapshots in the queue, of about 40 kB each
_MAX_CLOSE_SECONDS: Final = 3.0
# How long the thread waits for lines of the journal that are not on disk yet.
_MAX_WAIT_SECONDS: Final = 5.0

_DONE: Final = object()

DamagedLines = tuple[int, int]  # how many there are, and the number of the first


class Keeper:
    """Keeps the snapshots of one run, and finds the one to roll back to.

    Without a journal on disk, snapshots are kept only in memory.
    """

    def __init__(self, journal: Path | None, notices: Notices, every: int = EVERY_ROWS) -> None:
        self._journal = None if journal is None else journal.absolute()
        self._folder = None if journal is None else SnapshotFolder(journal.parent, every)
        self._notices = notices
        self._in_memory: deque[Snapshot] = deque(maxlen=_IN_MEMORY)
        self._earlier: list[Place] = []  # files of earlier processes that fit the journal
        self._crc = (0, 0)  # the checksum of the journal, and the offset it reaches to
        self.rows = 0  # how many rows the newest snapshot of an earlier process covers
        self._writer: _Writer | None = None
        # A smaller interval, as in tests, means that every snapshot is to be written.
        self._min_seconds = _MIN_SECONDS if every >= EVERY_ROWS else 0.0
        self._unwritten: Snapshot | None = None  # the newest, if it is only in memory
        self._written_at = time.monotonic()

    def newest_stored(self) -> StoredSnapshot | None:
        """Return the newest snapshot of earlier processes that fits the journal.

        Snapshots that do not fit it are deleted.
        """
        if self._folder is None or self._journal is None:
            return None
        places = self._folder.places()
        if not places:
            return None
        self.rows = places[0].rows
        try:
            crcs = checksums(self._journal, [place.offset for place in places])
        except OSError:  # the next part that reads the journal reports it
            return None
        found: StoredSnapshot | None = None
        for place in places:
            try:
                stored = self._folder.read(place)
                if crcs.get(place.offset) != stored.crc:
                    raise UnfitError("it belongs to another journal")
            except UnfitError as error:
                self.report(place.path.name, error)
                self._folder.delete(place)
                continue
            self._earlier.append(place)
            if found is None:
                found, self._crc = stored, (stored.crc, place.offset)
        return found

    def take(self, snapshot: Snapshot, fold: SharedFold) -> None:
        """Keep a snapshot and queue it for writing. For the training thread."""
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
        """The journal offset from which a rollback may have to replay.

        It is the offset of the oldest snapshot in memory. It is 0 until there are three, because a
        rollback to before the first snapshot replays from the first row.
        """
        return self._in_memory[0].offset if len(self._in_memory) == _IN_MEMORY else 0

    def before(self, step: int) -> Iterator[Snapshot]:
        """Yield the snapshots from before a step that were not rolled back, newest first."""
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
        """Discard the snapshots at or after a step: training was rolled back to it."""
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
        """Warn that a snapshot cannot be used. The journal is read instead, which takes longer."""
        self._notices.warn(
            f"snapshot {name} is ignored ({error!s:.200}); reading the journal instead"
        )

    def close(self, timeout: float) -> None:
        """Write the newest snapshot, and end the thread."""
        self._write()
        if self._writer is not None:
            self._writer.close(timeout)


class SharedFold:
    """The fold of a journal, shared by the training thread and the thread that writes snapshots.

    A thread must hold the lock to read or change the fold.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.fold: Fold | None = None
        self.damaged: DamagedLines = (0, 0)


class _Writer(ReportsFailures):
    """The thread that advances the fold to the offset of a snapshot and writes both."""

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
        self.written: list[Place] = []  # the files of this process that still exist
        self._has_failed = False
        # A snapshot to write, a step from which on to delete snapshots, or None to stop.
        self._jobs: queue.SimpleQueue[Snapshot | int | None] = queue.SimpleQueue()
        self._closing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="klarm-snapshots", daemon=True)
        # RuntimeError: no thread can be started; then snapshots are kept only in memory.
        with contextlib.suppress(RuntimeError):
            self._thread.start()

    def put(self, job: Snapshot | int) -> None:
        is_stuck = isinstance(job, Snapshot) and self._jobs.qsize() >= _MAX_WAITING
        if self._thread.is_alive() and not is_stuck:
            self._jobs.put(job)

    def close(self, timeout: float) -> None:
        """Write the queued snapshots, if that does not take long, and stop."""
        self._closing = True
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join(min(timeout, _MAX_CLOSE_SECONDS))
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            self._try(job)

    def _next(self) -> Snapshot | int | None:
        """Return the next job. If the thread falls behind, older snapshots are skipped."""
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
                return  # a rollback on the training thread has read further meanwhile
            stored = StoredSnapshot(job, fold.saved(), self._crc, *self._fold.damaged)
            content = pack(stored)
        own = {job.offset, *(place.offset for place in self.written)}
        self._folder.write(job, content)
        self.written = [place for place in self._folder.places() if place.offset in own]

    def _wait_for(self, offset: int) -> bool:
        """Wait until the journal is written up to an offset: on a slow disk, lines are queued."""
        waited = 0.0
        while self._journal.stat().st_size < offset:
            waited += 0.05
            if waited > _MAX_WAIT_SECONDS or self._stopping.wait(0.05):
                return False
        return True

    def _advance(self, offset: int) -> bool:
        """Advance checksum and fold to an offset in chunks; return whether both reached it."""
        with self._journal.open("rb", buffering=0) as file:
            file.seek(self._crc_to)
            while self._crc_to < offset:
                chunk = file.read(min(CHECKSUM_CHUNK, offset - self._crc_to))
                if not chunk or self._stopping.is_set():
                    return False
                self._crc, self._crc_to = zlib.crc32(chunk, self._crc), self._crc_to + len(chunk)
        fold = self._fold.fold
        if fold is None:
            return False
        for _ in self._locked_steps(fold.update_slowly(offset, _CHUNK)):
            if not self._closing:  # once training has ended, nothing else needs the GIL
                self._stopping.wait(_PAUSE_SECONDS)
            if self._stopping.is_set() or self._fold.fold is not fold:
                return False
        return fold.read_to == offset

    def _locked_steps(self, steps: Iterator[None]) -> Iterator[None]:
        """Advance an iterator, holding the lock during each step but not between steps."""
        while True:
            with self._fold.lock:
                if next(steps, _DONE) is _DONE:
                    return
            yield

    def _report(self, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            self.notices.warn(
                f"cannot write a snapshot of {self._journal.parent} ({error!s:.200}): rollbacks "
                "and resuming take longer"
            )
