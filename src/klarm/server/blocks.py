"""Reads the blocks of a run: its axis, and the values of a metric along it."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Literal, NamedTuple

import numpy as np

from klarm.server.packing import Floats, Steps, has_value, unpack_floats, unpack_steps
from klarm.server.rows import STEPS, TIMES

Axis = Literal["step", "time"]
# Above this share of a run's blocks, reading all of them is faster than selecting some.
_MAX_SELECTED_SHARE = 0.25


class Block(NamedTuple):
    """Consecutive rows of a run, and the part of the axis that they cover."""

    first_row: int
    rows: int
    low: float
    high: float


class Points(NamedTuple):
    """Values in the order of the axis. Rows without a value are left out."""

    x: Floats
    y: Floats


def points_of(x: Floats, y: Floats, *, rises: bool) -> Points:
    """Return the rows that have a value, in the order of the axis."""
    present = has_value(y)
    if not present.all():
        x, y = x[present], y[present]
    if not rises:
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    return Points(x, y)


class RunBlocks:
    """The blocks of one run along one axis, within one view of the index."""

    def __init__(self, database: sqlite3.Connection, run: int, axis: Axis) -> None:
        """Read the list of blocks."""
        self.database, self.run, self.axis = database, run, axis
        ordered = database.execute("SELECT ordered FROM runs WHERE run = ?", (run,)).fetchone()
        # Whether x never decreases. If it does, the rows are not in the order of the axis.
        self.rises = bool(ordered is not None and ordered[0] & (1 if axis == "step" else 2))
        low, high = ("low_step", "high_step") if axis == "step" else ("low_time", "high_time")
        self.blocks = [
            Block(*row)
            for row in database.execute(
                f"SELECT first_row, rows, {low}, {high} FROM blocks WHERE run = ? "
                "ORDER BY first_row",
                (run,),
            )
        ]
        self._x: dict[int, Floats] = {}

    def range(self) -> tuple[float, float] | None:
        """Return the lowest and the highest x; None if the run has no rows."""
        if not self.blocks:
            return None
        return min(block.low for block in self.blocks), max(block.high for block in self.blocks)

    def metric_number(self, name: str) -> int | None:
        """Return the number of a metric in the index; None if the run does not have it."""
        found = self.database.execute(
            "SELECT metric FROM metrics WHERE run = ? AND name = ?", (self.run, name)
        ).fetchone()
        return None if found is None else int(found[0])

    def values(self, metric: int, first_rows: Collection[int]) -> dict[int, Floats]:
        """Return the values of a metric in some blocks; blocks without any are left out."""
        return {
            first_row: unpack_floats(data) for first_row, data in self._packs(metric, first_rows)
        }

    def steps(self, first_row: int) -> Steps:
        """Return the steps of a block, whatever the axis is."""
        return unpack_steps(self._packs(STEPS, [first_row])[0][1])

    def step_beside(self, step: int, rows: int) -> int:
        """Return the step some rows after a step, or before it; at most the last or first one.

        The number of rows must not exceed that of a block, because only three blocks are read.
        """
        at = next((at for at, block in enumerate(self.blocks) if block.high >= step), -1)
        at = len(self.blocks) - 1 if at < 0 else at
        near = self.blocks[max(at - 1, 0) : at + 2]
        if not near:
            return step
        steps = np.sort(np.concatenate([self.steps(block.first_row) for block in near]))
        place = int(np.searchsorted(steps, step)) + rows
        return int(steps[min(max(place, 0), len(steps) - 1)])

    def times(self, first_row: int) -> Floats:
        """Return the times of a block, whatever the axis is."""
        return unpack_floats(self._packs(TIMES, [first_row])[0][1])

    def points(self, metric: int, first_rows: Collection[int]) -> Points:
        """Return the values of a metric in some blocks, including those that are not finite."""
        values = self.values(metric, first_rows)
        if not values:
            return Points(np.zeros(0), np.zeros(0))
        self._read_x(values)
        y = np.concatenate([values[first_row] for first_row in sorted(values)])
        x = np.concatenate([self._x[first_row] for first_row in sorted(values)])
        return points_of(x, y, rises=self.rises)

    def _read_x(self, first_rows: Collection[int]) -> None:
        missing = [first_row for first_row in first_rows if first_row not in self._x]
        if missing and self.axis == "step":
            for first_row, data in self._packs(STEPS, missing):
                self._x[first_row] = unpack_steps(data).astype(np.float64)
        elif missing:
            for first_row, data in self._packs(TIMES, missing):
                self._x[first_row] = unpack_floats(data)

    def _packs(self, metric: int, first_rows: Collection[int]) -> list[tuple[int, bytes]]:
        if not first_rows:
            return []
        if len(first_rows) < _MAX_SELECTED_SHARE * len(self.blocks):
            found = (
                self.database.execute(
                    "SELECT first_row, data FROM packs "
                    "WHERE run = ? AND metric = ? AND first_row = ?",
                    (self.run, metric, first_row),
                ).fetchone()
                for first_row in first_rows
            )
            return [pack for pack in found if pack is not None]
        wanted = set(first_rows)
        rows = self.database.execute(
            "SELECT first_row, data FROM packs "
            "WHERE run = ? AND metric = ? AND first_row BETWEEN ? AND ?",
            (self.run, metric, min(wanted), max(wanted)),
        )
        return [pack for pack in rows if pack[0] in wanted]
