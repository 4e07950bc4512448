"""What moved over the last steps, in which direction, how far and when."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

from klarm.incidents.numbers import factor
from klarm.metrics import METRICS
from klarm.stats import median
from klarm.types import Worse

# How many steps a diagnosis looks back.
LOOK_BACK = 100
# How many are kept: some detectors find a fall long after it, and what was before is asked for too.
_KEPT = 300
_WIDE = 200  # names in a row
# Of a metric that is logged at few steps, so many values from before those.
_KEPT_OF_SPARSE = 100
# The first part of them is what was normal; fewer values say nothing.
_NORMAL_SHARE = 0.5
_MIN_VALUES = 20
_MIN_OF_A_LEVEL = 5
# A value that was not finite is past when so many finite ones have come since.
_HEALED = 20
# A value has moved when the median of three is this many spreads and this share away from normal.
_SPREADS = 4.0
_SHARE = 0.25
_AT_ONCE = 3
# And twice as far if it has turned back since: noise goes far once in a while.
_PASSED = 2.0
# Reward is noisy and often climbs all the time: its rise is clear when more values show it.
_REWARD = "reward"
_CLEARLY = 10

# A learning rate that is this many times the one before was raised, not scheduled.
_RATE, _RAISED = "learning_rate", 3.0

_Row = tuple[int, Mapping[str, float]]

Direction = Literal["up", "down", "flat", "broken"]


class Movement(NamedTuple):
    """How one metric moved."""

    metric: str
    direction: Direction
    step: int  # when it left what was normal; the last step if it did not
    # What it is over what was normal, or was at its furthest; NaN if that is no measure.
    factor: float
    level: float = math.nan  # what it is now
    # If it has turned back since: where it is now, and over what was normal.
    ended: Direction | None = None
    now: float = math.nan
    # How far away from normal the median was of the values up to a step, step by step.
    path: tuple[tuple[int, float], ...] = ()

    @property
    def lately(self) -> Direction:
        """Where it is now."""
        return self.ended or self.direction

    def share_since(self, step: int) -> float:
        """Return how much of its way it has come since a step; 1 if that is not known."""
        before = [away for at, away in self.path if at < step]
        now = self.path[-1][1] if self.path else 0.0
        return 1.0 - before[-1] / now if before and now else 1.0

    def __str__(self) -> str:
        if self.direction == "flat":
            return f"{self.metric} flat"
        if self.direction == "broken":
            return f"{self.metric} not finite at {self.step}"
        text = f"{self.metric} {_times(self.factor) or self.direction} from {self.step}"
        return text if self.ended is None else f"{text}, now {_times(self.now) or self.ended}"


class RecentRows:
    """The last steps that were logged; of those with very many names, what klarm may ask for."""

    def __init__(self, watched: Iterable[str] = ()) -> None:
        """Prepare to keep rows. `watched` are names that detectors read besides the metrics."""
        self._asked_for = METRICS.keys() | set(watched)
        self._rows: deque[_Row] = deque(maxlen=_KEPT)
        # What rows held that had metrics which the one before does not: those are logged sparsely.
        self._sparse: dict[str, deque[tuple[int, float]]] = {}

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Take in what was new at a step: several dicts may make up one."""
        rows = self._rows
        if len(values) > _WIDE:  # hundreds of them would fill the memory
            values = {name: values[name] for name in self._asked_for if name in values}
        if rows and rows[-1][0] == step:
            rows[-1] = (step, {**rows[-1][1], **values})
        else:
            if len(rows) == _KEPT and [*rows[0][1]] != [*rows[-1][1]]:
                self._keep_sparse(*rows[0], rows[-1][1])
            rows.append((step, values))

    def level(self, metric: str, until: float = math.inf, steps: int = _KEPT) -> float:
        """Return what a metric was over so many steps up to one; NaN if that is not known."""
        found = [value for step, value in self._series(metric) if step <= until][-steps:]
        finite = [value for value in found if math.isfinite(value)]
        return median(finite) if len(finite) >= _MIN_OF_A_LEVEL else math.nan

    def latest(self, metric: str, count: int, before: float = math.inf) -> float:
        """Return the median of the latest finite values of a metric; NaN if there are too few.

        `before` leaves out a step whose dicts have not all come yet.
        """
        found: list[float] = []
        for step, values in reversed(self._rows):
            value = values.get(metric, math.nan)
            if math.isfinite(value) and step < before:
                found.append(value)
                if len(found) == count:
                    break
        if len(found) < _MIN_OF_A_LEVEL:
            found = [value for _, value in self._series(metric) if math.isfinite(value)][-count:]
        return median(found) if len(found) >= _MIN_OF_A_LEVEL else math.nan

    def worst(self, metric: str, worse: Worse, count: int) -> float:
        """Return the worst of the latest finite values of a metric; NaN if there is none."""
        found = [value for _, value in self._series(metric) if math.isfinite(value)]
        return (max if worse == "higher" else min)(found[-count:], default=math.nan)

    def level_and_noise(self, metric: str, until: float, steps: int = _KEPT) -> tuple[float, float]:
        """Return what a metric was up to a step, and how far it scattered about that."""
        level = self.level(metric, until, steps)
        found = [value for step, value in self._series(metric) if step <= until][-steps:]
        apart = [abs(value - level) for value in found if math.isfinite(value)]
        return level, 1.4826 * median(apart) if apart and math.isfinite(level) else math.nan

    def since(self, step: int) -> list[tuple[int, Mapping[str, float]]]:
        """Return the rows from a step on, as far as they are kept."""
        return [row for row in self._rows if row[0] >= step]

    def furthest(self, metric: str, since: int, normal: float) -> float:
        """Return the finite value from a step on that is furthest from another; NaN if none is."""
        found = [value for step, value in self._series(metric) if step >= since]
        finite = [value for value in found if math.isfinite(value)]
        return max(finite, key=lambda value: abs(value - normal), default=math.nan)

    def rows_until(self, step: int) -> float:
        """Return how many rows there were up to a step; infinite if not all of them are kept."""
        if len(self._rows) == _KEPT:
            return math.inf
        return sum(at <= step for at, _ in self._rows)

    def first_and_latest(self, metric: str, count: int) -> tuple[float, float]:
        """Return the first value that is kept, and the median of the latest."""
        found = [value for _, value in self._series(metric) if math.isfinite(value)]
        if len(found) <= count:
            return math.nan, math.nan
        return found[0], median(found[-count:])

    def had(self, metric: str, step: int, value: float) -> bool:
        """Tell whether a metric had this very value at a step, or since before it.

        What only repeats a value that is held is not kept, so the last one up to the step counts.
        """
        earlier = ((at, row[metric]) for at, row in reversed(self._rows) if metric in row)
        for at, known in chain(earlier, reversed(self._sparse.get(metric, ()))):
            if at <= step:
                return known == value or (known != known and value != value)  # noqa: PLR0124  # NaN
        return False

    def get_state(self) -> tuple[list[_Row], dict[str, list[tuple[int, float]]]]:
        """Return them for a snapshot, which holds them as they are: there are hundreds.

        What a detector may read is enough, as where rows are read from a journal.
        """
        rows: list[_Row] = [
            (step, {name: row[name] for name in row if name in self._asked_for})
            for step, row in self._rows
        ]
        sparse = self._sparse.items()
        return rows, {metric: list(kept) for metric, kept in sparse if metric in self._asked_for}

    def set_state(self, state: Sequence[Any]) -> None:
        """Take up what a snapshot holds."""
        rows, sparse = state
        self._rows = deque([(step, values) for step, values in rows], maxlen=_KEPT)
        self._sparse = {
            metric: deque([(step, value) for step, value in kept], maxlen=_KEPT_OF_SPARSE)
            for metric, kept in sparse.items()
        }

    def clear(self) -> None:
        """Forget them, as after a rollback."""
        self._rows.clear()
        self._sparse.clear()

    def _series(self, metric: str) -> list[tuple[int, float]]:
        rows = [(step, values[metric]) for step, values in self._rows if metric in values]
        return [*self._sparse.get(metric, ()), *rows]

    def _keep_sparse(
        self, step: int, values: Mapping[str, float], usual: Mapping[str, float]
    ) -> None:
        for metric, value in values.items():
            if metric not in usual:
                kept = self._sparse.setdefault(metric, deque(maxlen=_KEPT_OF_SPARSE))
                kept.append((step, value))

    def movements(self) -> list[Movement]:
        """Return how every known metric moved: those that did in their order, then the others."""
        found = []
        rows = list(self._rows)[-LOOK_BACK:]
        for metric in METRICS:
            series = [(step, values[metric]) for step, values in rows if metric in values]
            movement = _movement(metric, series)
            if movement is not None:
                found.append(movement)
        return sorted(found, key=lambda m: (m.direction == "flat", m.step))


def summary(movements: Iterable[Movement]) -> str:
    """Say in one line what moved in which order, and what did not.

    >>> summary([Movement("grad_norm", "up", 612, 4.0), Movement("kl", "up", 618, 8.0),
    ...          Movement("reward", "flat", 630, 1.0)])
    'grad_norm ×4 from 612, then kl ×8 from 618; reward flat'
    """
    movements = list(movements)
    moved = ", then ".join(str(m) for m in movements if m.direction != "flat")
    still = ", ".join(m.metric for m in movements if m.direction == "flat")
    return f"{moved or 'nothing'}; {still} flat" if still else moved


def _raised_rate(series: list[tuple[int, float]]) -> Movement | None:
    """Return where a learning rate was last multiplied at a stroke; schedules do not do that.

    It has no noise, so a few values before are enough, and it may stand anywhere among them. From 0
    a schedule sets out as well, but in small steps: what follows is many times the first of them.
    """
    highest_since = 0.0
    for number in range(len(series) - 1, _MIN_OF_A_LEVEL - 1, -1):
        (_, before), (step, after) = series[number - 1], series[number]
        if 0.0 < _RAISED * before <= after < math.inf:
            return Movement(_RATE, "up", step, after / before, level=series[-1][1])
        if before == 0.0 < after < math.inf and highest_since < _RAISED * after:
            return Movement(_RATE, "up", step, math.inf, level=series[-1][1])
        highest_since = max(highest_since, after)
    return None


def _movement(metric: str, series: list[tuple[int, float]]) -> Movement | None:
    if metric == _RATE and (raised := _raised_rate(series)) is not None:
        return raised
    if not all(math.isfinite(value) for _, value in series[-_HEALED:]):
        first_broken = next(step for step, value in series if not math.isfinite(value))
        return Movement(metric, "broken", first_broken, math.nan)
    series = [(step, value) for step, value in series if math.isfinite(value)]
    if len(series) < _MIN_VALUES:
        return None
    values = [value for _, value in series]
    split = int(len(values) * _NORMAL_SHARE)
    normal = median(values[:split])
    spread = 1.4826 * median(abs(value - normal) for value in values[:split])
    least = max(_SPREADS * spread, _SHARE * abs(normal), 1e-12)
    at_once = _CLEARLY if metric == _REWARD else _AT_ONCE
    # How far away from normal it was, in the middle of so many values.
    away = [
        median(values[i : i + at_once]) - normal for i in range(split, len(values) - at_once + 1)
    ]
    now = away[-1]
    ended = _direction(now, least)
    furthest = max(away, key=abs)
    turned = abs(furthest) > _PASSED * least and _direction(furthest, least) != ended
    if not turned:
        furthest = now
    direction = _direction(furthest, least)
    if direction == "flat":
        return Movement(metric, "flat", series[-1][0], math.nan, level=normal + now)
    # It set out where it was last within a quarter of the way, and slow growth before is no part of
    # it. A median is out when most are: the change came with the middle one.
    side = math.copysign(1.0, furthest)
    near = max(least, abs(furthest) / 4.0)
    first = away.index(furthest) if turned else len(away) - 1
    while first > 0 and side * away[first - 1] > near:
        first -= 1
    # A level that noise drowns is nothing to measure by.
    unit = normal if abs(normal) > spread else math.nan
    return Movement(
        metric,
        direction,
        series[split + first + at_once // 2][0],
        (normal + furthest) / unit,
        level=normal + now,
        ended=ended if turned else None,
        now=(normal + now) / unit,
        path=tuple((series[split + i + at_once - 1][0], far) for i, far in enumerate(away)),
    )


def _direction(away: float, least: float) -> Direction:
    return "flat" if abs(away) <= least else "up" if away > 0.0 else "down"


def _times(value: float) -> str:
    return factor(value) if 0.0 < value < math.inf else ""
