"""The rows of a run as columns: arrays of numbers, read from its journal when somebody asks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from operator import le, lt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klarm.journal import AnyStep, steps_of
from klarm.metrics import counts, to_number
from klarm.runs.extremes import Floats, Ints
from klarm.runs.known import GoneBack, limits_of
from klarm.store import LogFile, Store

Axis = Literal["step", "time"]
# A NaN with bits that no calculation produces: it marks that a row has no value of the metric.
_NO_VALUE_BITS = np.uint64(0x7FF8_0000_006B_6C61)
NO_VALUE = float(np.array([_NO_VALUE_BITS], dtype=np.uint64).view(np.float64)[0])
# Steps that do not fit into 64 bits are clipped.
MAX_STEP = 2**63 - 1
_MAX_TIME = 1e300  # a larger number is not a valid time
_SLICE_BYTES = 2**20


class Points(NamedTuple):
    """Values in the order of an axis. Rows without a value are left out."""

    x: Floats
    y: Floats


class Extent(NamedTuple):
    """What a column holds."""

    values: int
    non_finite: int
    low: float | None
    high: float | None
    first_step: int
    last_step: int
    last: float
    last_time: float


class Columns:
    """The rows that were not rolled back, one per call of `log`, each with its new values.

    Several calls for one step are one step, in which the first value of a metric wins unless a
    later one is not finite. One thread at a time may read on; others may look at what is there.
    """

    def __init__(
        self,
        store: Store,
        run: str,
        rollbacks: Sequence[GoneBack],
        wanted: Collection[str] | None = None,
        expected_rows: int = 0,
    ) -> None:
        """Prepare to read; `wanted` are the metrics to keep, by default all.

        `rollbacks` are all of the journal so far; after another one that undoes rows, the columns
        are to be read again.
        """
        self.wanted = None if wanted is None else frozenset(wanted)
        self.read_to = 0
        self.count = 0  # of rows
        self._file = LogFile(store, run)
        self._limits = limits_of(rollbacks)  # from which offset on, below which step
        self._rises = {"step": True, "time": True}
        self._steps: Ints = np.zeros(expected_rows, np.int64)
        self._times: Floats = np.zeros(expected_rows)
        self._values: dict[str, Floats] = {}  # with room for as many rows
        self._last_step: int | None = None
        self._last_time = 0.0
        self._seen: set[str] | None = None  # metrics of the last step; None until needed
        self._last_values: Mapping[str, object] = {}

    @property
    def bytes(self) -> int:
        """About how much memory the columns take."""
        return self._steps.nbytes * (2 + len(self._values))

    def read(self, end: int) -> bool:
        """Read the next slice up to an offset; return whether there may be more."""
        if self.read_to >= end:
            return False
        at = [begin for begin, _ in self._limits]
        place = int(np.searchsorted(at, self.read_to, side="right"))
        stop = min(end, at[place]) if place < len(at) else end
        limit = self._limits[place - 1][1]
        read_to, steps = steps_of(self._file, self.read_to, stop, _SLICE_BYTES)  # type: ignore[arg-type]
        if read_to == self.read_to:
            return False
        self.read_to = read_to
        if limit < inf:
            steps = [step for step in steps if step.step < limit]
        if steps:
            self._add(steps)
        return self.read_to < end

    def rises(self, axis: Axis) -> bool:
        """Return whether x never decreases from row to row."""
        return self._rises[axis]

    def names(self) -> list[str]:
        """Return the metrics that are kept and have values, in alphabetical order."""
        return sorted(self._values)

    def x(self, axis: Axis) -> Floats:
        """Return the steps or the times of all rows, as numbers on an axis."""
        return self.steps().astype(np.float64) if axis == "step" else self.times()

    def steps(self) -> Ints:
        """Return the steps of all rows."""
        return self._steps[: self.count]

    def times(self) -> Floats:
        """Return the times of all rows."""
        return self._times[: self.count]

    def of(self, name: str) -> Floats:
        """Return the values of a metric, one per row; NO_VALUE where it was not logged."""
        column = self._values.get(name)
        return np.full(self.count, NO_VALUE) if column is None else column[: self.count]

    def points(self, name: str, axis: Axis = "step") -> Points:
        """Return the values of a metric along an axis, including those that are not finite."""
        x = self.x(axis)
        y = self.of(name)[: len(x)]  # another thread may have read on
        present = has_value(y)
        if not present.all():
            x, y = x[present], y[present]
        if not self.rises(axis):
            order = np.argsort(x, kind="stable")
            x, y = x[order], y[order]
        return Points(x, y)

    def span(self, axis: Axis = "step") -> tuple[float, float] | None:
        """Return the lowest and the highest x; None if there are no rows."""
        x = self.x(axis)
        return (float(x.min()), float(x.max())) if len(x) else None

    def extent(self, name: str) -> Extent | None:
        """Return what the column of a metric holds; None if it has no value."""
        values = self.of(name)
        rows = np.flatnonzero(has_value(values))
        if not len(rows):
            return None
        logged, steps = values[rows], self.steps()
        finite = logged[np.isfinite(logged)]
        at = steps[rows] if not self.rises("step") else steps[rows[[0, -1]]]
        return Extent(
            values=len(rows),
            non_finite=len(rows) - len(finite),
            low=float(finite.min()) if len(finite) else None,
            high=float(finite.max()) if len(finite) else None,
            first_step=int(at.min()),
            last_step=int(at.max()),
            last=float(logged[-1]),
            last_time=float(self.times()[rows[-1]]),
        )

    def step_beside(self, step: int, rows: int) -> int:
        """Return the step some rows after a step, or before it; at most the last or first one."""
        steps = self.steps() if self.rises("step") else np.sort(self.steps())
        if not len(steps):
            return step
        place = int(np.searchsorted(steps, _clipped(step))) + rows
        return int(steps[min(max(place, 0), len(steps) - 1)])

    def time_of(self, step: int) -> float | None:
        """Return when a step was logged, or else the step before it; None if there is none."""
        steps = self.steps()
        if self.rises("step"):
            place = int(np.searchsorted(steps, _clipped(step), side="right")) - 1
        else:
            place = int(max(np.flatnonzero(steps <= step), default=-1))
        return float(self.times()[place]) if place >= 0 else None

    def rows(
        self, names: Sequence[str], first_row: int = 0
    ) -> Iterator[tuple[int, float, list[float | None]]]:
        """Yield step, time and values from a row on; None where a metric was not logged."""
        steps, times = self.steps(), self.times()
        values = [self.of(name) for name in names]
        present = [has_value(column) for column in values]
        for row in range(first_row, len(steps)):
            cells = [
                float(column[row]) if there[row] else None
                for column, there in zip(values, present, strict=True)
            ]
            yield int(steps[row]), float(times[row]), cells

    def _add(self, steps: Sequence[AnyStep]) -> None:
        numbers = [step.step for step in steps]
        values: list[Mapping[str, object]] = [step.metrics for step in steps]
        before = numbers[0] - 1 if self._last_step is None else self._last_step
        if all(map(lt, chain((before,), numbers), numbers)):
            self._last_step, self._last_values, self._seen = numbers[-1], values[-1], None
        else:
            self._merge_steps(numbers, values)
        times = self._valid_times([step.time for step in steps])
        names, table = table_of(values, self.wanted)
        rows = slice(self.count, self.count + len(numbers))
        if rows.stop > len(self._steps):
            self._make_room(rows.stop)
        try:
            self._steps[rows] = numbers
        except OverflowError:
            self._steps[rows] = [_clipped(number) for number in numbers]
        self._times[rows] = times
        for name, column in zip(names, table, strict=True):
            if name not in self._values:
                self._values[name] = np.full(len(self._steps), NO_VALUE)
            self._values[name][rows] = column
        self.count = rows.stop

    def _make_room(self, rows: int) -> None:
        """Make room for so many rows at least: a quarter more than now, column by column."""
        more = max(rows, len(self._steps) + len(self._steps) // 4) - len(self._steps)
        self._steps = np.concatenate([self._steps, np.zeros(more, np.int64)])
        self._times = np.concatenate([self._times, np.zeros(more)])
        for name, column in self._values.items():
            self._values[name] = np.concatenate([column, np.full(more, NO_VALUE)])

    def _merge_steps(self, numbers: list[int], values: list[Mapping[str, object]]) -> None:
        """Reduce each row that follows a row of the same step to its new values."""
        for row, number in enumerate(numbers):
            if number == self._last_step:
                values[row] = self._new_in(values[row])
            else:
                if self._last_step is not None and number < self._last_step:
                    self._rises["step"] = False
                self._last_step, self._last_values, self._seen = number, values[row], None

    def _new_in(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the new values of a further call for a step."""
        if self._seen is None:
            self._seen = {
                name for name, value in self._last_values.items() if to_number(value) is not None
            }
        new = {
            name: value
            for name, value in values.items()
            if (number := to_number(value)) is not None and counts(name, number, self._seen)
        }
        self._seen.update(new)
        return new

    def _valid_times(self, times: list[float]) -> list[float]:
        """Return times with each invalid one replaced by the one before it."""
        in_order = all(map(le, chain((self._last_time,), times), times))
        if not (in_order and times[0] > -_MAX_TIME and times[-1] < _MAX_TIME):
            before = self._last_time
            for row, time in enumerate(times):
                if not abs(time) < _MAX_TIME:
                    times[row] = before
                elif time < before:
                    self._rises["time"] = False
                before = times[row]
        self._last_time = times[-1]
        return times


def table_of(
    rows: Sequence[Mapping[str, object]], wanted: Collection[str] | None = None
) -> tuple[list[str], Floats]:
    """Return the names of the metrics in some rows, and an array with one line per metric.

    Values that are missing or not numbers are NO_VALUE.

    >>> names, table = table_of([{"kl": 0.5, "loss": "NaN"}, {"loss": 2.0}])
    >>> names, table[1].tolist(), has_value(table).tolist()
    (['kl', 'loss'], [nan, 2.0], [[True, False], [True, True]])
    """
    first, count = tuple(rows[0]), len(rows)
    kept = [place for place, name in enumerate(first) if wanted is None or name in wanted]
    if list(map(tuple, rows)).count(first) == count:  # the same metrics in the same order, as usual
        values = list(chain.from_iterable([row.values() for row in rows]))
        if list(map(type, values)).count(float) == len(values):
            table = np.array(values, dtype=np.float64).reshape(count, len(first))
            return [first[place] for place in kept], table.T[kept]
    names = [name for name in dict.fromkeys(chain(*rows)) if wanted is None or name in wanted]
    lines = [[_number(row.get(name)) for row in rows] for name in names]
    table = np.array(lines, dtype=np.float64).reshape(len(names), count)
    logged = np.flatnonzero(has_value(table).any(axis=1)) if names else np.zeros(0, np.int64)
    return [names[place] for place in logged.tolist()], table[logged]


def has_value(values: Floats) -> NDArray[np.bool_]:
    """Return for each row whether the metric was logged."""
    present: NDArray[np.bool_] = values.view(np.uint64) != _NO_VALUE_BITS
    return present


def _number(value: object) -> float:
    number = to_number(value)
    return NO_VALUE if number is None else number


def _clipped(step: int) -> int:
    return max(-MAX_STEP, min(step, MAX_STEP))
