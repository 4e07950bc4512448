"""Which metrics moved over the last steps: in which direction, how far and when."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

from klarm.incidents.numbers import factor
from klarm.incidents.onset import is_flat, onset_of
from klarm.incidents.recent_rows import RecentRows
from klarm.metrics import METRICS, is_reward_component
from klarm.stats import median

# The number of steps that a diagnosis looks back.
LOOK_BACK = 100
# How far it looks for the onset of an incident, if a metric had already begun to move before.
_LOOK_FURTHER = (200, 300)
# This first share of the values is the normal range.
_NORMAL_SHARE = 0.5
_MIN_VALUES = 20  # for a movement
_MIN_BEFORE_RAISE = 5  # values of a learning rate, so that a warm-up does not count as a raise
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
RATE, _RAISED_FACTOR = "learning_rate", 3.0

# Only of these does a reader want to know that they did not move.
_TELLING_IF_FLAT = ("kl", "entropy", _REWARD)

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


def movements_of(recent: RecentRows) -> list[Movement]:
    """Return the movements of all known metrics: those that moved in order, then the others."""
    found = []
    rows = recent.last(LOOK_BACK)
    for metric in METRICS:
        series = [(step, values[metric]) for step, values in rows if metric in values]
        movement = _movement(metric, series)
        if movement is not None:
            found.append(movement)
    return in_order(not_before_a_raised_rate(found, [step for step, _ in rows]))


def in_order(movements: Iterable[Movement]) -> list[Movement]:
    """Return movements by their steps, the learning rate first of equals, and then what is flat."""
    movements = list(movements)
    moved = [movement for movement in movements if movement.direction != "flat"]
    moved.sort(key=lambda movement: (movement.step, movement.metric != RATE))
    return [*moved, *(movement for movement in movements if movement.direction == "flat")]


def earlier_onset(recent: RecentRows, metric: str, went: Direction) -> int | None:
    """Return when a metric left its normal range, if that takes looking back further than usual.

    An alert may come so late that the metric was already moving in the rows that count as normal.
    None if it was not, or if it has a trend in all rows that are kept.
    """
    seen = 0
    for rows in (LOOK_BACK, *_LOOK_FURTHER):
        series = [(step, values[metric]) for step, values in recent.last(rows) if metric in values]
        finite = [value for _, value in series if math.isfinite(value)]
        if len(finite) == seen or len(finite) < _MIN_VALUES:
            return None  # there are no earlier values, or too few
        seen = len(finite)
        if is_flat(finite[: int(seen * _NORMAL_SHARE)]):
            movement = None if rows == LOOK_BACK else _movement(metric, series)
            return movement.step if movement is not None and movement.direction == went else None
    return None


def component_movements(recent: RecentRows) -> list[Movement]:
    """Return which of several rewards moved, in their order, and only the first few."""
    rows = recent.last(LOOK_BACK)
    names = {name for _, values in rows for name in values if is_reward_component(name)}
    found = []
    for name in names:
        series = [(step, values[name]) for step, values in rows if name in values]
        movement = _movement(name, series)
        if movement is not None and movement.direction != "flat":
            found.append(movement)
    return sorted(found, key=lambda m: (m.step, m.metric))[:_MAX_COMPONENTS]


def summary(movements: Iterable[Movement], began: float = -math.inf) -> str:
    """Return one line that says what moved in which order and what did not, or nothing if none did.

    What moved before the step `began`, when an incident or its cause began, did not follow it, and
    is named apart.

    >>> moved = [Movement("grad_norm", "up", 612, 4.0), Movement("kl", "up", 618, 8.0)]
    >>> summary([*moved, Movement("reward", "flat", 630, 1.0)])
    'grad_norm ×4 from 612, then kl ×8 from 618; reward flat'
    >>> summary(moved, began=615)
    'kl ×8 from 618; before that, grad_norm ×4 from 612'
    >>> summary(moved[:1], began=615)
    'grad_norm ×4 from 612, before the incident'
    """
    movements = list(movements)
    moved = [m for m in movements if m.direction != "flat" or m.risen]
    earlier = _listed(m for m in moved if m.step < began)
    later = _listed(m for m in moved if m.step >= began)
    flat = ", ".join(
        m.metric
        for m in movements
        if m.metric in _TELLING_IF_FLAT and m.direction == "flat" and not m.risen
    )
    if earlier:
        said = f"{later}; before that, {earlier}" if later else f"{earlier}, before the incident"
    else:
        said = later
    return f"{said}; {flat} flat" if said and flat else said


def _listed(movements: Iterable[Movement]) -> str:
    return ", then ".join(map(str, movements))


def _raised_rate(series: list[tuple[int, float]]) -> Movement | None:
    """Return where the learning rate was last multiplied in one step, which no schedule does.

    A learning rate has no noise, so a few earlier values are enough. A schedule may also start from
    0, but in small steps: later values are many times the first one.
    """
    highest_since = 0.0
    for number in range(len(series) - 1, _MIN_BEFORE_RAISE - 1, -1):
        (_, before), (step, after) = series[number - 1], series[number]
        if 0.0 < _RAISED_FACTOR * before <= after < math.inf:
            return Movement(RATE, "up", step, after / before, level=series[-1][1])
        if before == 0.0 < after < math.inf and highest_since < _RAISED_FACTOR * after:
            return Movement(RATE, "up", step, math.inf, level=series[-1][1])
        highest_since = max(highest_since, after)
    return None


def not_before_a_raised_rate(movements: list[Movement], steps: list[int]) -> list[Movement]:
    """Date no movement a few rows before the learning rate was raised, whose step is exact."""
    raised = next((m.step for m in movements if m.metric == RATE and m.direction == "up"), None)
    if raised is None:
        return movements
    just_before = set(steps[: steps.index(raised)][-_TRACED_EARLY:])
    return [m._replace(step=raised) if m.step in just_before else m for m in movements]


def _movement(metric: str, series: list[tuple[int, float]]) -> Movement | None:
    if metric == RATE and (raised := _raised_rate(series)) is not None:
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
