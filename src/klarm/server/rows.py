"""Writes the rows of a run to the index: a tail in memory, and blocks in the database.

A row has the new values of one call of `log`, as `journal.surviving_rows` yields it. New rows are
stored in small blocks at first. When there are enough of them, they are merged into one block of
`BLOCK_ROWS`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import le, lt

import numpy as np

from klarm.journal import AnyStep, Limit
from klarm.metrics import counts, to_number
from klarm.server.packing import (
    MAX_STEP,
    Columns,
    columns,
    extremes_of,
    has_value,
    pack_floats,
    pack_steps,
    unpack_floats,
    unpack_steps,
)

BLOCK_ROWS = 1024
_MAX_SMALL_BLOCKS = 32
STEPS, TIMES = -1, -2  # the metric numbers under which steps and times are packed
_MAX_TIME = 1e300  # a larger number is not a valid time


class RunRows:
    """Stores the steps of one journal."""

    def __init__(self, run: int, block_rows: int = BLOCK_ROWS) -> None:
        """Prepare for the run with this number in the index. `load` reads what is stored."""
        self.run = run
        self.count = 0  # of rows, stored or not
        self.steps_rise = self.times_rise = True
        self.last_time = 0.0
        self._last_step: int | None = None
        self._last_values: Mapping[str, object] = {}
        self._seen: set[str] | None = None  # metrics of the last step; None until needed
        self._block_rows = block_rows
        self._begin = 0  # the row at which the tail begins
        self._stored = 0  # how many rows of the tail are stored
        self._small_blocks = 0  # how many small blocks hold them
        self._steps: list[int] = []
        self._times: list[float] = []
        self._values: list[Mapping[str, object]] = []
        self._numbers: dict[str, int] = {}  # the number of each metric
        self._only_block: Columns | None = None  # all rows, if one block holds them

    def add(self, steps: Sequence[AnyStep]) -> int:
        """Add steps of the journal; return the lowest."""
        numbers = [step.step for step in steps]
        times = [step.time for step in steps]
        values: list[Mapping[str, object]] = [step.metrics for step in steps]
        before = numbers[0] - 1 if self._last_step is None else self._last_step
        lowest = numbers[0]
        if not all(map(lt, chain((before,), numbers), numbers)):
            lowest = min(numbers)
            self._merge_steps(numbers, values)
        else:
            self._last_step, self._last_values, self._seen = numbers[-1], values[-1], None
        if not (
            all(map(le, chain((self.last_time,), times), times))
            and times[0] > -_MAX_TIME
            and times[-1] < _MAX_TIME
        ):
            self._repair_times(times)
        self.last_time = times[-1]
        self._steps += numbers
        self._times += times
        self._values += values
        self.count += len(numbers)
        return lowest

    def load(self, database: sqlite3.Connection) -> None:
        """Read what is stored: its last rows become the tail."""
        self._numbers = {
            name: number
            for number, name in database.execute(
                "SELECT metric, name FROM metrics WHERE run = ?", (self.run,)
            )
        }
        self._begin = self.count = _end_of_rows(database, self.run)
        begin = self.count
        for first_row, rows in database.execute(
            "SELECT first_row, rows FROM blocks WHERE run = ? ORDER BY first_row DESC", (self.run,)
        ):
            if rows >= self._block_rows:
                break
            begin = first_row
        self._take_up(database, min(begin, max(0, self.count - 1)))
        self._recall(database)

    def roll_back(self, limit: Limit, database: sqlite3.Connection) -> None:
        """Delete the rows that were rolled back."""
        self.store(database)
        self._only_block = None
        (undone,) = database.execute(
            "SELECT min(first_row) FROM blocks WHERE run = ? AND high_step >= ?",
            (self.run, min(limit.step, MAX_STEP)),
        ).fetchone()
        if undone is None:
            return
        # If steps went back without a resume line, deleting rows may bring together rows of the
        # same step.
        self._take_up(database, min(undone, self._begin) if self.steps_rise else 0)
        _delete_from(database, self.run, self._begin)
        kept = [row for row, step in enumerate(self._steps) if limit.keeps_step(step)]
        self._steps = [self._steps[row] for row in kept]
        self._times = [self._times[row] for row in kept]
        self._values = [self._values[row] for row in kept]
        if not self.steps_rise:
            self._last_step = None
            self._merge_steps(self._steps, self._values)
        self.count = self._begin + len(kept)
        self._stored = self._small_blocks = 0
        self.store(database)
        self._recall(database)

    def store(self, database: sqlite3.Connection) -> None:
        """Write the rows added since the last call."""
        size = self._block_rows
        whole = len(self._steps) // size * size
        if (whole or self._small_blocks >= _MAX_SMALL_BLOCKS) and self._stored:
            _delete_from(database, self.run, self._begin)
            self._stored = self._small_blocks = 0
        for start in range(0, whole, size):
            self._write(database, start, start + size)
        if whole:
            self._begin += whole
            del self._steps[:whole], self._times[:whole], self._values[:whole]
            self._stored = 0
        if len(self._steps) > self._stored:
            self._write(database, self._stored, len(self._steps))
            self._stored = len(self._steps)
            self._small_blocks += 1

    def whole(self) -> Columns | None:
        """Return all rows of a run that was written as one block, as a short run is at first."""
        only = self._only_block
        return only if only is not None and len(only.steps) == self.count else None

    def _merge_steps(self, numbers: list[int], values: list[Mapping[str, object]]) -> None:
        """Reduce each row that follows a row of the same step to its new values."""
        for row, number in enumerate(numbers):
            if number == self._last_step:
                values[row] = self._new_in(values[row])
            else:
                if self._last_step is not None and number < self._last_step:
                    self.steps_rise = False
                self._last_step, self._last_values, self._seen = number, values[row], None

    def _repair_times(self, times: list[float]) -> None:
        """Replace each invalid time by the one before it, and note whether times go back."""
        before = self.last_time
        for row, time in enumerate(times):
            if not abs(time) < _MAX_TIME:
                times[row] = before
            elif time < before:
                self.times_rise = False
            before = times[row]

    def _new_in(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the new values of a further call for a step: see `journal.surviving_rows`."""
        if self._seen is None:
            self._seen = _numbers_in(self._last_values)
        new = {
            name: value
            for name, value in values.items()
            if (number := to_number(value)) is not None and counts(name, number, self._seen)
        }
        self._seen.update(new)
        return new

    def _take_up(self, database: sqlite3.Connection, row: int) -> None:
        """Extend the tail back to the block that holds a row. Everything must be stored."""
        (begin,) = database.execute(
            "SELECT max(first_row) FROM blocks WHERE run = ? AND first_row <= ?", (self.run, row)
        ).fetchone()
        if begin is None or begin >= self._begin:
            return
        names = {number: name for name, number in self._numbers.items()}
        steps, times, values = _stored_rows(database, self.run, begin, self._begin, names)
        self._steps[:0], self._times[:0], self._values[:0] = steps, times, values
        self._stored += len(steps)
        self._small_blocks += 1
        self._begin = begin

    def _recall(self, database: sqlite3.Connection) -> None:
        """Restore the last step, its time and the metrics it has, from the tail."""
        while self._begin and len(set(self._steps)) < 2:  # the step may begin before the tail
            self._take_up(database, self._begin - 1)
        self._last_step = self._steps[-1] if self._steps else None
        self.last_time = self._times[-1] if self._times else 0.0
        self._seen = set()
        for step, values in zip(reversed(self._steps), reversed(self._values), strict=True):
            if step != self._last_step:
                break
            self._seen |= _numbers_in(values)

    def _write(self, database: sqlite3.Connection, start: int, stop: int) -> None:
        """Store rows of the tail as one block."""
        first_row = self._begin + start
        packed_steps = pack_steps(self._steps[start:stop])
        steps, times = unpack_steps(packed_steps), np.array(self._times[start:stop])
        rows = self._values[start:stop]
        database.execute(
            "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                *(self.run, first_row, len(rows)),
                *(int(steps.min()), int(steps.max()), float(times.min()), float(times.max())),
            ),
        )
        packs = [(STEPS, packed_steps), (TIMES, pack_floats(times))]
        extremes = []
        names, table = columns(rows)
        self._only_block = Columns(names, steps, table) if first_row == 0 else None
        known = len(self._numbers)
        for name, numbers, found in zip(
            names, table, extremes_of(table, steps, times), strict=True
        ):
            if found is not None:
                metric = self._numbers.setdefault(name, len(self._numbers))
                packs.append((metric, pack_floats(numbers)))
                extremes.append((self.run, metric, first_row, *found))
        database.executemany(
            "INSERT INTO metrics VALUES (?, ?, ?)",
            [
                (self.run, number, _storable(name))
                for name, number in list(self._numbers.items())[known:]
            ],
        )
        database.executemany(
            "INSERT INTO packs VALUES (?, ?, ?, ?)",
            [(self.run, metric, first_row, data) for metric, data in packs],
        )
        database.executemany(
            "INSERT INTO extremes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", extremes
        )


def _storable(name: str) -> str:
    """Return a name without lone surrogates, which cannot be stored."""
    return name.encode(errors="replace").decode()


def _numbers_in(values: Mapping[str, object]) -> set[str]:
    return {name for name, value in values.items() if to_number(value) is not None}


def _end_of_rows(database: sqlite3.Connection, run: int) -> int:
    last = database.execute(
        "SELECT first_row + rows FROM blocks WHERE run = ? ORDER BY first_row DESC LIMIT 1", (run,)
    ).fetchone()
    return 0 if last is None else int(last[0])


def _delete_from(database: sqlite3.Connection, run: int, row: int) -> None:
    for table in ("blocks", "extremes", "packs"):
        database.execute(f"DELETE FROM {table} WHERE run = ? AND first_row >= ?", (run, row))


def _stored_rows(
    database: sqlite3.Connection, run: int, begin: int, end: int, names: Mapping[int, str]
) -> tuple[Sequence[int], Sequence[float], list[Mapping[str, object]]]:
    """Return the stored rows from the row `begin` to the row `end`."""
    steps: list[int] = []
    times: list[float] = []
    values: list[dict[str, object]] = []
    for first_row, rows in database.execute(
        "SELECT first_row, rows FROM blocks WHERE run = ? AND first_row >= ? AND first_row < ? "
        "ORDER BY first_row",
        (run, begin, end),
    ).fetchall():
        block: list[dict[str, object]] = [{} for _ in range(rows)]
        for metric, data in database.execute(
            "SELECT metric, data FROM packs WHERE run = ? AND metric >= ? AND first_row = ?",
            (run, TIMES, first_row),
        ):
            if metric == STEPS:
                steps += unpack_steps(data).tolist()
            elif metric == TIMES:
                times += unpack_floats(data).tolist()
            else:
                numbers = unpack_floats(data)
                for row in np.flatnonzero(has_value(numbers)).tolist():
                    block[row][names[metric]] = float(numbers[row])
        values += block
    return steps, times, list(values)
