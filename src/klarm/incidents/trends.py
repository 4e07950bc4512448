"""Which metrics moved over the last steps: in which direction, how far and when."""

from __future__ import annotations

import math
from collections.abc import Iterable

from klarm.incidents.movement import LATE_SHARE, RATE, Before, Direction, Movement, in_order
from klarm.incidents.onset import first_unlike, is_flat, left_level, left_trend, onset_of
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
# The level just before a movement is the median of up to this many values.
_ROWS_BEFORE, _MIN_ROWS_BEFORE = 10, 5
# In noise, the step to which a movement is traced back is early by up to this many rows.
_TRACED_EARLY = 5
# A movement that has turned back must have gone this many times as far, because noise sometimes
# goes far.
_TURNED_FACTOR = 2.0
# Reward is noisy and often climbs all the time, so more values must show its movement.
_REWARD = "reward"
_REWARD_MEDIAN_OF = 10
# While it jumps, the median of ten hides how far it is. It jumps if each of the last four values is
# this many spreads from that median, because three may be lucky; then it is the median of five.
_JUMPING_VALUES, _JUMPING_SPREADS, _JUMPING_MEDIAN_OF = 4, 2.0, 5
# What has not moved is called flat only if it differs from normal by at most this many spreads, or
# by at most this share. A reward, of which ten values count, does so in pure noise once in fifty
# times.
_FLAT_SPREADS, _FLAT_REWARD_SPREADS, _FLAT_SHARE = 3.0, 1.0, 0.05
# A trend goes on unless the last rows turn back by this many spreads: noise does so once in ten
# times.
_PAUSE_SPREADS = 0.25
# A trend goes on as before unless it has led this many times as far as it should have.
_IN_LINE_FACTOR = 2.0
_MAX_COMPONENTS = 3  # reward functions that are named

# The explained variance is NaN where all returns are equal, which is no failure.
_MAY_BE_UNDEFINED = "explained_variance"

# A learning rate that is this many times the previous one was raised, not scheduled.
_RAISED_FACTOR = 3.0


def movements_of(recent: RecentRows) -> list[Movement]:
    """Return the movements of all known metrics: those that moved in order, then the others."""
    found = []
    rows = recent.last(LOOK_BACK)
    for metric in METRICS:
        series = [(step, values[metric]) for step, values in rows if metric in values]
        movement = _movement(metric, series)
        if movement is not None:
            found.append(movement)
    found = not_before_a_raised_rate(found, [step for step, _ in rows])
    return in_order(with_levels_before(found, recent))


def with_levels_before(movements: Iterable[Movement], recent: RecentRows) -> list[Movement]:
    """Return movements with the level just before their steps, which people compare with."""
    return [
        movement
        if movement.direction not in ("up", "down") or movement.metric == RATE
        else movement._replace(before=level_before(recent, movement.metric, movement.step))
        for movement in movements
    ]


def level_before(recent: RecentRows, metric: str, step: int) -> Before | None:
    """Return the level of a metric just before a step; None if too few values are known."""
    values = recent.finite_values(metric, -math.inf, step)[-_ROWS_BEFORE:]
    if len(values) < _MIN_ROWS_BEFORE:
        return None
    return _level_of(values)


def _level_of(values: list[float]) -> Before:
    level = median(values)
    noise = 1.4826 * median(abs(value - level) for value in values)
    return Before(level, noise, min(values) > 0.0)


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
            if movement is None or movement.steady or movement.direction != went:
                return None
            return movement.step
    return None


def not_finite_since(recent: RecentRows, step: int) -> int:
    """Return how many values of all known metrics have not been finite since a step."""
    known = METRICS.keys() - {_MAY_BE_UNDEFINED}
    rows = (values for _, values in recent.since(step))
    return sum(not math.isfinite(row[name]) for row in rows for name in known & row.keys())


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
    first = sorted(found, key=lambda m: (m.step, m.metric))[:_MAX_COMPONENTS]
    return with_levels_before(first, recent)


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
    return [m._replace(step=raised, before=None) if m.step in just_before else m for m in movements]


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
    usual = _level_of(values[:split])
    normal, spread = usual.level, usual.noise
    min_distance = max(_MIN_SPREADS * spread, _MIN_SHARE * abs(normal), 1e-12)
    is_reward = metric == _REWARD or is_reward_component(metric)
    median_of = _reward_median_of(values, spread) if is_reward else _MEDIAN_OF
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
        spreads = _FLAT_REWARD_SPREADS if is_reward else _FLAT_SPREADS
        tends = _direction(now, max(spreads * spread, _FLAT_SHARE * abs(normal)))
        levels = [median(values[i : i + median_of]) for i in range(split + len(away))]
        left = left_trend(values[:split], levels, math.copysign(1.0, now), median_of // 2)
        return Movement(
            metric,
            "flat",
            series[-1][0],
            math.nan,
            level=normal + now,
            normal=usual,
            rows=len(series),
            tends=tends,
            steady=tends != "flat" and left is None,
            in_line=_is_in_line(values[:split], now, spread),
            pauses=_pauses(values, now, spread),
        )
    end = away.index(furthest) + 1 if turned else len(away)
    before = [median(values[i : i + median_of]) - normal for i in range(split)]
    course = [*before, *away[:end]]
    # A running median moves when most of its values have: use the middle one.
    offset = median_of // 2
    # A reward is too noisy to be traced back, and often climbs before.
    began, evident = onset_of(values, course, normal, spread, min_distance, traced=not is_reward)
    levels = [normal + distance for distance in course]
    side = math.copysign(1.0, furthest)
    left = left_trend(values[:split], levels, side, offset)
    began, evident = (max(place, left or 0) + offset for place in (began, evident))
    if is_reward and left == 0:  # otherwise it has just left a trend
        began = evident = left_level(values, began, normal, spread, side)
    began = first_unlike(values, spread, side, began=began, evident=evident)
    # A factor over a level that is smaller than its noise means nothing.
    unit = normal if abs(normal) > spread else math.nan
    return Movement(
        metric,
        direction,
        series[began][0],
        (normal + furthest) / unit,
        level=normal + now,
        reached=normal + furthest,
        ended=ended if turned else None,
        steady=left is None,
        in_line=_is_in_line(values[:split], furthest, spread),
        normal=usual,
        rows=len(series),
        pauses=_pauses(values, furthest, spread),
        evident=series[max(began, evident)][0],
        path=tuple((series[split + i + median_of - 1][0], far) for i, far in enumerate(away)),
    )


def _is_in_line(first_half: list[float], away: float, spread: float) -> bool:
    """Return whether the trend of the first half explains most of the distance from it.

    Between its quarters it went a third of the way that leads from its middle to the last row.
    """
    middle = len(first_half) // 2
    trend = 3.0 * (median(first_half[middle:]) - median(first_half[:middle]))
    return abs(away) <= _IN_LINE_FACTOR * abs(trend) + _FLAT_SPREADS * spread


def _pauses(values: list[float], side: float, spread: float) -> bool:
    """Return whether values turn back in their last quarter, judging by its last third."""
    latest = values[-(len(values) // LATE_SHARE) :]
    end = len(latest) - len(latest) // 3
    back = math.copysign(1.0, side) * (median(latest[:end]) - median(latest[end:]))
    return back > _PAUSE_SPREADS * spread


def _reward_median_of(values: list[float], spread: float) -> int:
    """Return how many values show the level of a reward."""
    usual = median(values[-_REWARD_MEDIAN_OF:])
    away = [value - usual for value in values[-_JUMPING_VALUES:]]
    is_jumping = max(min(away), -max(away)) > _JUMPING_SPREADS * spread
    return _JUMPING_MEDIAN_OF if is_jumping else _REWARD_MEDIAN_OF


def _direction(away: float, min_distance: float) -> Direction:
    return "flat" if abs(away) <= min_distance else "up" if away > 0.0 else "down"
