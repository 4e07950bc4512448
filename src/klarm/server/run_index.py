"""Reads one journal into the index, chunk by chunk, with the same fold as everything else."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

import msgspec

from klarm.journal import (
    FILE_NAME,
    AnyStep,
    Checkpoint,
    Damage,
    Finish,
    Fold,
    IncidentRecord,
    Limit,
    Record,
    Resume,
    SavedFold,
    Started,
    close_at_rest,
)
from klarm.server.packing import Columns
from klarm.server.rows import BLOCK_ROWS, RunRows
from klarm.types import Alert, Blip, Command, Event

CHUNK_BYTES = 2**23  # bytes that are read in one transaction
_MAX_NAMED = 20  # damaged lines that are described
_BEGINNING, _END = 1024, 128  # bytes by which a journal is recognized

_encode = msgspec.msgpack.Encoder().encode
_decode_fold = msgspec.msgpack.Decoder(SavedFold).decode


class Damages(msgspec.Struct):
    """The ignored lines of a journal: how many, and a description of the first ones."""

    count: int = 0
    named: list[str] = []

    def add(self, number: int, why: Damage) -> None:
        """Add one line."""
        self.count += 1
        if len(self.named) < _MAX_NAMED:
            what = "not written by klarm" if why == "not by klarm" else why
            self.named.append(f"line {number} of the journal is {what} and ignored")


class News(msgspec.Struct):
    """What a chunk of a journal has changed."""

    what: set[str] = msgspec.field(default_factory=set)
    first_step: float = inf  # the lowest step that was logged or rolled back to


class RunIndex:
    """One journal and its data in the index. Only the writing thread may use it."""

    def __init__(self, run: int, folder: Path, block_rows: int = BLOCK_ROWS) -> None:
        """Prepare for a run that is not in the index. `load` reads what the index has."""
        self.run = run
        self.journal = folder / FILE_NAME
        self.damages = Damages()
        self.fold = Fold(self.journal, self.damages.add, self._on_record, self._on_steps)
        self.last_seen = 0.0
        self._rows = RunRows(run, block_rows)
        self._news = News()
        self._records: list[tuple[object, ...]] = []
        self._number = 0  # the number of the last record
        self._checkpoints: set[str] = set()  # paths
        self._rollbacks = 0
        self._database: sqlite3.Connection | None = None  # set while a chunk is read

    def load(self, database: sqlite3.Connection) -> bool:
        """Read what the index has; return False if it belongs to another journal."""
        if not self.load_fold(database):
            return True
        ordered, fingerprint = database.execute(
            "SELECT ordered, fingerprint FROM runs WHERE run = ?", (self.run,)
        ).fetchone()
        if fingerprint != self._fingerprint():
            return False
        self._rows.load(database)
        self._rows.steps_rise, self._rows.times_rise = bool(ordered & 1), bool(ordered & 2)
        (self._number,) = database.execute(
            "SELECT coalesce(max(number), 0) FROM records WHERE run = ?", (self.run,)
        ).fetchone()
        self._rollbacks = len(self.fold.rollbacks)
        self._checkpoints = {path for _, path in self.fold.checkpoints}
        return True

    def load_fold(self, database: sqlite3.Connection) -> bool:
        """Read only the stored fold; return False if nothing is stored."""
        found = database.execute(
            "SELECT fold, damage, last_seen FROM runs WHERE run = ?", (self.run,)
        ).fetchone()
        if found is None or found[0] is None:
            return False
        saved, damage, self.last_seen = found
        self.fold.restore(_decode_fold(saved))
        stored = msgspec.msgpack.decode(damage, type=Damages)
        self.damages.count, self.damages.named = stored.count, stored.named
        return True

    def read(self, database: sqlite3.Connection, at_most: int = CHUNK_BYTES) -> News:
        """Read the next chunk of the journal, within a transaction of the caller."""
        self._news, self._database = News(), database
        try:
            self.fold.update(at_most)
            self._store(database)
        finally:
            self._database = None
        if self._news.first_step < inf:
            self._news.what.add("steps")
        return self._news

    def whole(self) -> Columns | None:
        """Return all rows of a run if they are in memory, as those of a short run are at first."""
        return self._rows.whole()

    def release(self) -> None:
        """Free the rows in memory, when nothing more is read for now.

        The fold refers back to this object, so without this call they would stay in memory until
        the garbage collector runs. Reading many runs then takes a tenth longer.
        """
        self._rows = RunRows(self.run)

    def incidents(self, commands: list[Command], *, at_rest: bool) -> list[IncidentRecord]:
        """Return the incidents of the run.

        If no process is training the run, commands take effect here immediately, before the index
        has read them from the journal.
        """
        waiting = [command for command in commands if command.key not in self.fold.commands]
        if not (waiting and at_rest):
            return list(self.fold.incidents.values())
        copy = Fold(self.journal)
        copy.restore(_decode_fold(_encode(self.fold.saved())))
        for command in waiting:
            close_at_rest(copy, command)
        return list(copy.incidents.values())

    def _fingerprint(self) -> bytes:
        """Return checksums that reveal whether the journal was replaced by another."""
        read_to = self.fold.read_to
        with self.journal.open("rb", buffering=0) as file:
            beginning = file.read(min(_BEGINNING, read_to))
            file.seek(max(0, read_to - _END))
            end = file.read(min(_END, read_to))
        return b"%08x%08x" % (zlib.crc32(beginning), zlib.crc32(end))

    def _store(self, database: sqlite3.Connection) -> None:
        self._rows.store(database)
        self._store_records(database)
        ordered = self._rows.steps_rise + 2 * self._rows.times_rise
        self.last_seen = max(self.last_seen, self._rows.last_time)
        database.execute(
            "UPDATE runs SET fold = ?, damage = ?, ordered = ?, last_seen = ?, fingerprint = ? "
            "WHERE run = ?",
            (
                _encode(self.fold.saved()),
                _encode(self.damages),
                ordered,
                self.last_seen,
                self._fingerprint(),
                self.run,
            ),
        )

    def _store_records(self, database: sqlite3.Connection) -> None:
        database.executemany(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self._records
        )
        self._records.clear()

    def _on_steps(self, steps: Sequence[AnyStep]) -> None:
        self._news.first_step = min(self._news.first_step, self._rows.add(steps))

    def _on_record(self, record: Record, line: bytes) -> None:
        if isinstance(record, Alert):
            self._news.what.add("alerts")
            self._keep(
                "alert", record.step, line, detector=record.detector, severity=record.severity
            )
        elif isinstance(record, Event):
            self._news.what.add("incidents")
            self._keep(
                "event",
                record.step,
                line,
                detector=record.detector,
                severity=record.severity,
                incident=record.id,
            )
        elif isinstance(record, Blip):
            self._keep("blip", record.step, line, severity=record.severity)
        elif isinstance(record, Checkpoint):
            self._news.what.add("checkpoints")
            if record.path in self._checkpoints:
                self._forget_checkpoint(record.path)
            self._checkpoints.add(record.path)
            self._keep("checkpoint", record.step, line, time=record.time)
        elif isinstance(record, Command):
            self._news.what.add("commands")
            self._keep("command", record.step or 0, line, incident=record.incident)
        elif isinstance(record, Resume):
            self._roll_back(record, line)
        elif isinstance(record, Started):
            self._news.what |= {"config", "activity"}
            seen, is_first = self.last_seen, self._number == 0
            self._keep("run", self.fold.last_step or 0, line, time=record.started)
            if not is_first:  # `klarm close` may have written it, long after the run ended
                self.last_seen = seen
        elif isinstance(record, Finish):
            self._news.what.add("activity")
            if record.steps:
                self.last_seen = max(self.last_seen, record.time)

    def _roll_back(self, resume: Resume, line: bytes) -> None:
        limit = Limit(resume.step)
        self._with_database(lambda database: self._rows.roll_back(limit, database))
        self._with_database(self._store_records)
        self._with_database(
            lambda database: database.execute(
                "UPDATE records SET counts = 0 WHERE run = ?1 AND "
                "((kind IN ('alert', 'blip') AND step >= ?2) OR "
                "(kind = 'checkpoint' AND step > ?2))",
                (self.run, resume.step),
            )
        )
        if len(self.fold.rollbacks) > self._rollbacks:
            self._rollbacks = len(self.fold.rollbacks)
            self._news.what.add("rollback")
            self._news.first_step = min(self._news.first_step, resume.step)
            undone = {"last": self.fold.rollbacks[-1].last}
            line = msgspec.json.encode({"step": resume.step, "time": resume.time, **undone})
            self._keep("rollback", resume.step, line, time=resume.time)

    def _forget_checkpoint(self, path: str) -> None:
        """Mark a checkpoint as invalid: another one has overwritten it."""
        self._with_database(self._store_records)
        self._with_database(
            lambda database: database.execute(
                "UPDATE records SET counts = 0 WHERE run = ? AND kind = 'checkpoint' "
                "AND json_extract(CAST(line AS TEXT), '$.path') = ?",
                (self.run, path),
            )
        )

    def _with_database(self, use: Callable[[sqlite3.Connection], object]) -> None:
        if self._database is not None:
            use(self._database)

    def _keep(
        self,
        kind: str,
        step: int,
        line: bytes,
        *,
        detector: str = "",
        severity: str = "",
        incident: str = "",
        time: float | None = None,
    ) -> None:
        self._number += 1
        when = self._rows.last_time if time is None else time
        self.last_seen = max(self.last_seen, when)
        self._records.append(
            (self.run, self._number, kind, step, when, 1, detector, severity, incident, line)
        )
