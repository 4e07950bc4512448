"""The rows of the last steps, from which levels and movements are computed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from klarm.metrics import METRICS
from klarm.stats import MAD_TO_STD, median, scatter
from klarm.types import Worse

# The number of rows that are kept: more than a diagnosis looks back, because some detectors report
# a fall late, and the level before it is needed, too.
_MAX_ROWS = 300
_MAX_NAMES = 200  # per row; of wider rows only the names that klarm may need are kept
# The number of earlier values that are kept of a metric that is logged at few steps.
_MAX_SPARSE = 100
_MIN_LEVEL_VALUES = 5
# The level before a movement is that of up to this many values. The last few before the onset of a
# metric that moves slowly, as rewards do, are left out: the movement may have begun in them.
_ROWS_BEFORE, _LEFT_OUT = 10, 5

_Row = tuple[int, Mapping[str, float]]


class RecentRows:
    """The rows of the last steps; of very wide rows only the names that klarm may need."""

    def __init__(self, watched: Iterable[str] = ()) -> None:
        """Create an empty history. `watched` are further names that detectors read."""
        self._asked_for = METRICS.keys() | set(watched)
        self._rows: deque[_Row] = deque(maxlen=_MAX_ROWS)
        # Earlier values of metrics that are logged at few steps.
        self._sparse: dict[str, deque[tuple[int, float]]] = {}

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Add what was logged at a step, which may come in several dicts."""
        rows = self._rows
        if len(values) > _MAX_NAMES:  # hundreds of names would fill the memory
            values = {name: values[name] for name in self._asked_for if name in values}
        if rows and rows[-1][0] == step:
            rows[-1] = (step, {**rows[-1][1], **values})
        else:
            if len(rows) == _MAX_ROWS and [*rows[0][1]] != [*rows[-1][1]]:
                self._keep_sparse(*rows[0], rows[-1][1])
            rows.append((step, values))

    def level(
        self,
        metric: str,
        until: float = math.inf,
        steps: int = _MAX_ROWS,
        *,
        sizes: bool = False,
    ) -> float:
        """Return the median of a metric over a number of steps up to one; NaN if unknown.

        `sizes` asks for the median of absolute values, here and below.
        """
        found = [value for step, value in self._series(metric, sizes) if step <= until][-steps:]
        finite = [value for value in found if math.isfinite(value)]
        return median(finite) if len(finite) >= _MIN_LEVEL_VALUES else math.nan

    def latest(
        self, metric: str, count: int, before: float = math.inf, *, sizes: bool = False
    ) -> float:
        """Return the median of the latest finite values of a metric; NaN if there are too few.

        `before` excludes a step whose dicts have not all been logged yet.
        """
        found: list[float] = []
        for step, values in reversed(self._rows):
            value = values.get(metric, math.nan)
            if math.isfinite(value) and step < before:
                found.append(abs(value) if sizes else value)
                if len(found) == count:
                    break
        if len(found) < _MIN_LEVEL_VALUES:
            series = self._series(metric, sizes)
            found = [value for _, value in series if math.isfinite(value)][-count:]
        return median(found) if len(found) >= _MIN_LEVEL_VALUES else math.nan

    def worst(self, metric: str, worse: Worse, count: int, *, sizes: bool = False) -> float:
        """Return the worst of the latest finite values of a metric; NaN if there is none."""
        found = [value for _, value in self._series(metric, sizes) if math.isfinite(value)]
        return (max if worse == "higher" else min)(found[-count:], default=math.nan)

    def level_and_noise(
        self, metric: str, until: float, steps: int = _MAX_ROWS
    ) -> tuple[float, float]:
        """Return the level of a metric over a number of steps up to one, and its scatter."""
        level = self.level(metric, until, steps)
        found = [value for step, value in self._series(metric) if step <= until][-steps:]
        known = [value for value in found if math.isfinite(value)]
        return level, MAD_TO_STD * scatter(known, level) if known and math.isfinite(
            level
        ) else math.nan

    def finite_values(self, metric: str, first: float, end: float) -> list[float]:
        """Return the finite values of a metric from a step up to, but not including, another."""
        series = self._series(metric)
        return [value for step, value in series if first <= step < end and math.isfinite(value)]

    def just_before(self, metric: str, onset: int) -> list[float]:
        """Return the last finite values of a metric that are surely from before an onset."""
        found = self.finite_values(metric, -math.inf, onset)
        known = METRICS.get(metric)
        is_slow = known is None or not known.changes_by_factors
        if is_slow and len(found) >= _LEFT_OUT + _MIN_LEVEL_VALUES:
            found = found[:-_LEFT_OUT]
        return found[-_ROWS_BEFORE:]

    def last(self, count: int) -> list[tuple[int, Mapping[str, float]]]:
        """Return the last rows, with their steps."""
        return list(self._rows)[-count:]

    def since(self, step: int) -> list[tuple[int, Mapping[str, float]]]:
        """Return the rows at and after a step that are still kept."""
        return [row for row in self._rows if row[0] >= step]

    def count(self, first: int, end: int) -> int:
        """Return the number of rows from a step up to, but not including, another."""
        return sum(first <= step < end for step, _ in self._rows)

    def rows_since(self, step: int) -> int | None:
        """Return how many rows a step is ago; None if its row is no longer kept."""
        if not self._rows or step < self._rows[0][0]:
            return None
        return sum(at > step for at, _ in self._rows)

    def rows_until(self, step: int) -> float:
        """Return the number of rows up to a step; infinite if some are no longer kept."""
        if len(self._rows) == _MAX_ROWS:
            return math.inf
        return sum(at <= step for at, _ in self._rows)

    def first_and_latest(self, metric: str, count: int) -> tuple[float, float]:
        """Return the first value that is kept, and the median of the latest ones."""
        found = [value for _, value in self._series(metric) if math.isfinite(value)]
        if len(found) <= count:
            return math.nan, math.nan
        return found[0], median(found[-count:])

    def had(self, metric: str, step: int, value: float) -> bool:
        """Return whether a metric had exactly this value at a step.

        Repeated values that a log fills forward are not kept, so the last value up to the step
        counts.
        """
        earlier = ((at, row[metric]) for at, row in reversed(self._rows) if metric in row)
        for at, known in chain(earlier, reversed(self._sparse.get(metric, ()))):
            if at <= step:
                return known == value or (known != known and value != value)  # noqa: PLR0124  # NaN
        return False

    def step_of(self, metric: str, place: int) -> int | None:
        """Return the step of a metric's value, counted from the end: 1 is the latest."""
        series = self._series(metric)
        return series[-min(place, len(series))][0] if series else None

    def missing_since(self, metric: str) -> int | None:
        """Return the first row after the last one that has a metric; None if that is the last."""
        since = None
        for step, values in reversed(self._rows):
            if metric in values:
                break
            since = step
        return since

    def unchanged_since(self, metric: str) -> int | None:
        """Return the first step at which a metric had the value that it has now."""
        series = self._series(metric)
        since = None
        for step, value in reversed(series):
            if value != series[-1][1]:
                break
            since = step
        return since

    def get_state(self) -> tuple[list[_Row], dict[str, list[tuple[int, float]]]]:
        """Return the rows for a snapshot, as plain data because there are hundreds.

        They contain only what a detector may read, like rows that are read from a journal.
        """
        rows: list[_Row] = [
            (step, {name: row[name] for name in row if name in self._asked_for})
            for step, row in self._rows
        ]
        sparse = self._sparse.items()
        return rows, {metric: list(kept) for metric, kept in sparse if metric in self._asked_for}

    def set_state(self, state: Sequence[Any]) -> None:
        """Restore the rows of a snapshot."""
        rows, sparse = state
        self._rows = deque([(step, values) for step, values in rows], maxlen=_MAX_ROWS)
        self._sparse = {
            metric: deque([(step, value) for step, value in kept], maxlen=_MAX_SPARSE)
            for metric, kept in sparse.items()
        }

    def clear(self) -> None:
        """Forget all rows, for example after a rollback."""
        self._rows.clear()
        self._sparse.clear()

    def _series(self, metric: str, sizes: bool = False) -> list[tuple[int, float]]:
        rows = [(step, values[metric]) for step, values in self._rows if metric in values]
        series = [*self._sparse.get(metric, ()), *rows]
        return [(step, abs(value)) for step, value in series] if sizes else series

    def _keep_sparse(
        self, step: int, values: Mapping[str, float], usual: Mapping[str, float]
    ) -> None:
        for metric, value in values.items():
            if metric not in usual:
                kept = self._sparse.setdefault(metric, deque(maxlen=_MAX_SPARSE))
                kept.append((step, value))
