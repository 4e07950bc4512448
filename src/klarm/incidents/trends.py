"""Which metrics moved over the last steps: in which direction, how far and when."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

from klarm.incidents.numbers import factor
from klarm.incidents.onset import onset_of
from klarm.metrics import METRICS, is_reward_component
from klarm.stats import median
from klarm.types import Worse

# The number of steps that a diagnosis looks back.
LOOK_BACK = 100
# The number of rows that are kept. It is larger, because some detectors report a fall late, and the
# level before it is needed, too.
_MAX_ROWS = 300
_MAX_NAMES = 200  # per row; of wider rows only the names that klarm may need are kept
# The number of earlier values that are kept of a metric that is logged at few steps.
_MAX_SPARSE = 100
# This first share of the values is the normal range.
_NORMAL_SHARE = 0.5
_MIN_VALUES = 20  # for a movement
_MIN_LEVEL_VALUES = 5
# A value that was not finite no longer matters after this many finite ones.
_FINITE_AGAIN = 20
# A metric has moved if the median of its last three values differs from normal by this many spreads
# and by this share of the normal level.
_MIN_SPREADS = 4.0
_MIN_SHARE = 0.25
_MEDIAN_OF = 3
# In noise, the step to which a movement is traced back is early by up to this many rows.
_TRACED_EARLY = 5
# A movement that has turned back must have gone this many times as far, because noise sometimes
# goes far.
_TURNED_FACTOR = 2.0
# Reward is noisy and often climbs all the time, so more values must show its movement.
_REWARD = "reward"
_REWARD_MEDIAN_OF = 10
# A reward whose latest median is this many spreads above normal is not called flat: in pure noise
# that happens once in a hundred times.
_RISEN_SPREADS = 1.0
_MAX_COMPONENTS = 3  # reward functions that are named

# The explained variance is NaN where all returns are equal, which is no failure.
_MAY_BE_UNDEFINED = "explained_variance"

# A learning rate that is this many times the previous one was raised, not scheduled.
_RATE, _RAISED_FACTOR = "learning_rate", 3.0

_Row = tuple[int, Mapping[str, float]]

Direction = Literal["up", "down", "flat", "broken"]


class Movement(NamedTuple):
    """How one metric moved."""

    metric: str
    direction: Direction
    step: int  # when it left its normal range; the last step if it did not
    # The current or, if it has turned back, the furthest value over the normal level; NaN if that
    # means nothing.
    factor: float
    level: float = math.nan  # its current level
    # If it has turned back: its current direction, and its current value over the normal level.
    ended: Direction | None = None
    now: float = math.nan
    # The distance of the median from normal, step by step.
    path: tuple[tuple[int, float], ...] = ()
    # From this step on, it was a quarter of the way from normal or further.
    evident: int = 0
    # Of a reward that counts as flat, because it is within its normal range: whether it has risen.
    risen: bool = False

    @property
    def lately(self) -> Direction:
        """Its current direction."""
        return self.ended or self.direction

    def share_since(self, step: int) -> float:
        """Return the share of its movement that came after a step; 1 if unknown."""
        before = [away for at, away in self.path if at < step]
        now = self.path[-1][1] if self.path else 0.0
        return 1.0 - before[-1] / now if before and now else 1.0

    def __str__(self) -> str:
        if self.direction == "flat":
            return f"{self.metric} {'up slowly' if self.risen else 'flat'}"
        if self.direction == "broken":
            return f"{self.metric} not finite at {self.step}"
        text = f"{self.metric} {_times(self.factor) or self.direction} from {self.step}"
        return text if self.ended is None else f"{text}, now {_times(self.now) or self.ended}"


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
        apart = [abs(value - level) for value in found if math.isfinite(value)]
        return level, 1.4826 * median(apart) if apart and math.isfinite(level) else math.nan

    def since(self, step: int) -> list[tuple[int, Mapping[str, float]]]:
        """Return the rows at and after a step that are still kept."""
        return [row for row in self._rows if row[0] >= step]

    def furthest(self, metric: str, since: int, normal: float) -> float:
        """Return the finite value since a step that is furthest from normal; NaN if none."""
        found = [value for step, value in self._series(metric) if step >= since]
        finite = [value for value in found if math.isfinite(value)]
        return max(finite, key=lambda value: abs(value - normal), default=math.nan)

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

    def movements(self) -> list[Movement]:
        """Return the movements of all known metrics: those that moved in order, then the others."""
        found = []
        rows = list(self._rows)[-LOOK_BACK:]
        for metric in METRICS:
            series = [(step, values[metric]) for step, values in rows if metric in values]
            movement = _movement(metric, series)
            if movement is not None:
                found.append(movement)
        found = _not_before_a_raised_rate(found, [step for step, _ in rows])
        moved = [movement for movement in found if movement.direction != "flat"]
        moved.sort(key=lambda movement: (movement.step, movement.metric != _RATE))
        return [*moved, *(movement for movement in found if movement.direction == "flat")]

    def component_movements(self) -> list[Movement]:
        """Return which of several rewards moved, in their order, and only the first few."""
        rows = list(self._rows)[-LOOK_BACK:]
        names = {name for _, values in rows for name in values if is_reward_component(name)}
        found = []
        for name in names:
            series = [(step, values[name]) for step, values in rows if name in values]
            movement = _movement(name, series)
            if movement is not None and movement.direction != "flat":
                found.append(movement)
        return sorted(found, key=lambda m: (m.step, m.metric))[:_MAX_COMPONENTS]


def summary(movements: Iterable[Movement]) -> str:
    """Return one line that says what moved in which order and what did not, or nothing if none did.

    >>> summary([Movement("grad_norm", "up", 612, 4.0), Movement("kl", "up", 618, 8.0),
    ...          Movement("reward", "flat", 630, 1.0)])
    'grad_norm ×4 from 612, then kl ×8 from 618; reward flat'
    """
    movements = list(movements)
    moved = ", then ".join(str(m) for m in movements if m.direction != "flat" or m.risen)
    flat = ", ".join(m.metric for m in movements if m.direction == "flat" and not m.risen)
    return f"{moved}; {flat} flat" if moved and flat else moved


def _raised_rate(series: list[tuple[int, float]]) -> Movement | None:
    """Return where the learning rate was last multiplied in one step, which no schedule does.

    A learning rate has no noise, so a few earlier values are enough. A schedule may also start from
    0, but in small steps: later values are many times the first one.
    """
    highest_since = 0.0
    for number in range(len(series) - 1, _MIN_LEVEL_VALUES - 1, -1):
        (_, before), (step, after) = series[number - 1], series[number]
        if 0.0 < _RAISED_FACTOR * before <= after < math.inf:
            return Movement(_RATE, "up", step, after / before, level=series[-1][1])
        if before == 0.0 < after < math.inf and highest_since < _RAISED_FACTOR * after:
            return Movement(_RATE, "up", step, math.inf, level=series[-1][1])
        highest_since = max(highest_since, after)
    return None


def _not_before_a_raised_rate(movements: list[Movement], steps: list[int]) -> list[Movement]:
    """Date no movement a few rows before the learning rate was raised, whose step is exact."""
    raised = next((m.step for m in movements if m.metric == _RATE and m.direction == "up"), None)
    if raised is None:
        return movements
    just_before = set(steps[: steps.index(raised)][-_TRACED_EARLY:])
    return [m._replace(step=raised) if m.step in just_before else m for m in movements]


def _movement(metric: str, series: list[tuple[int, float]]) -> Movement | None:
    if metric == _RATE and (raised := _raised_rate(series)) is not None:
        return raised
    if metric == _MAY_BE_UNDEFINED:
        series = [(step, value) for step, value in series if math.isfinite(value)]
    if not all(math.isfinite(value) for _, value in series[-_FINITE_AGAIN:]):
        first_broken = next(step for step, value in series if not math.isfinite(value))
        return Movement(metric, "broken", first_broken, math.nan)
    series = [(step, value) for step, value in series if math.isfinite(value)]
    if len(series) < _MIN_VALUES:
        return None
    values = [value for _, value in series]
    split = int(len(values) * _NORMAL_SHARE)
    normal = median(values[:split])
    spread = 1.4826 * median(abs(value - normal) for value in values[:split])
    min_distance = max(_MIN_SPREADS * spread, _MIN_SHARE * abs(normal), 1e-12)
    is_reward = metric == _REWARD or is_reward_component(metric)
    median_of = _REWARD_MEDIAN_OF if is_reward else _MEDIAN_OF
    # The distance of the running median from normal.
    away = [
        median(values[i : i + median_of]) - normal
        for i in range(split, len(values) - median_of + 1)
    ]
    now = away[-1]
    ended = _direction(now, min_distance)
    furthest = max(away, key=abs)
    turned = (
        abs(furthest) > _TURNED_FACTOR * min_distance
        and _direction(furthest, min_distance) != ended
    )
    if not turned:
        furthest = now
    direction = _direction(furthest, min_distance)
    if direction == "flat":
        risen = metric == _REWARD and now > _RISEN_SPREADS * spread
        return Movement(metric, "flat", series[-1][0], math.nan, level=normal + now, risen=risen)
    end = away.index(furthest) + 1 if turned else len(away)
    before = [median(values[i : i + median_of]) - normal for i in range(split)]
    # A reward is too noisy to be traced back, and often climbs before.
    course = [*before, *away[:end]]
    onset = onset_of(values, course, normal, spread, min_distance, traced=not is_reward)
    # A running median moves when most of its values have: use the middle one.
    began, evident = (series[index + median_of // 2][0] for index in onset)
    # A factor over a level that is smaller than its noise means nothing.
    unit = normal if abs(normal) > spread else math.nan
    return Movement(
        metric,
        direction,
        began,
        (normal + furthest) / unit,
        level=normal + now,
        ended=ended if turned else None,
        now=(normal + now) / unit,
        evident=evident,
        path=tuple((series[split + i + median_of - 1][0], far) for i, far in enumerate(away)),
    )


def _direction(away: float, min_distance: float) -> Direction:
    return "flat" if abs(away) <= min_distance else "up" if away > 0.0 else "down"


def _times(value: float) -> str:
    return factor(value) if 0.0 < value < math.inf else ""
