"""Which metrics moved over the last steps: in which direction, how far and when."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from klarm.incidents.bend import left_line
from klarm.incidents.going_on import is_in_line, pauses
from klarm.incidents.movement import RATE, Before, Movement, in_order
from klarm.incidents.onset import first_unlike, is_flat, left_level, left_trend, onset_of
from klarm.incidents.recent_rows import RecentRows
from klarm.metrics import METRICS, is_reward_component
from klarm.stats import MAD_TO_STD, median, scatter
from klarm.types import Direction

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
_MIN_ROWS_BEFORE = 5  # values for the level before a movement
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
# The rows up to this many after a movement is evident show where it left the line before.
_SURELY_AFTER = 6
_MAX_COMPONENTS = 3  # reward functions that are named
_END_ROWS = 10  # the first and the last rows, whose medians are compared

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
    values = recent.just_before(metric, step)
    if len(values) < _MIN_ROWS_BEFORE:
        return None
    return _level_of(values)


def _level_of(values: list[float]) -> Before:
    level = median(values)
    noise = MAD_TO_STD * scatter(values, level)
    return Before(level, noise, min(values) > 0.0)


def earlier_onset(recent: RecentRows, metric: str, went: Direction) -> int | None:
    """Return when a metric in alert left its normal range, if that takes a closer look than usual.

    An alert may come so late that the metric was already moving in the rows that count as normal,
    or while it has not gone far enough to be listed as moved. None if neither is the case, or if it
    has a trend in all rows that are kept.
    """
    seen, latest = 0, list[tuple[int, float]]()
    for rows in (LOOK_BACK, *_LOOK_FURTHER):
        series = [(step, values[metric]) for step, values in recent.last(rows) if metric in values]
        finite = [(step, value) for step, value in series if math.isfinite(value)]
        if len(finite) == seen or len(finite) < _MIN_VALUES:
            break  # there are no earlier values, or too few
        seen, latest = len(finite), latest or finite
        if is_flat([value for _, value in finite[: int(seen * _NORMAL_SHARE)]]):
            movement = _movement(metric, series)
            if movement is None or movement.direction not in (went, "flat"):
                return None
            if movement.direction == "flat":
                return _bend(metric, finite, went)
            return None if rows == LOOK_BACK or movement.steady else movement.step
    movement = _movement(metric, latest)
    looks_flat = movement is not None and movement.direction == "flat"
    return _bend(metric, latest, went) if looks_flat else None


def _bend(metric: str, series: list[tuple[int, float]], went: Direction) -> int | None:
    """Return the step at which a metric left the line that it had followed; None if it did not."""
    values = [value for _, value in series]
    bend = left_line(values, 1.0 if went == "up" else -1.0, by_factors=_by_factors(metric))
    return None if bend is None else series[bend][0]


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
        side = math.copysign(1.0, now)
        left = left_trend(
            values[:split], levels, side, median_of // 2, by_factors=_by_factors(metric)
        )
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
            in_line=is_in_line(values, now, spread),
            pauses=pauses(values, now, spread),
            drifted=_has_drifted(values),
            first=median(values[:_END_ROWS]),
        )
    end = away.index(furthest) + 1 if turned else len(away)
    before = [median(values[i : i + median_of]) - normal for i in range(split)]
    course = [*before, *away[:end]]
    # A running median moves when most of its values have: use the middle one.
    offset = median_of // 2
    # A reward is too noisy to be traced back, and often climbs before.
    began, evident, gradual = onset_of(
        values, course, normal, spread, min_distance, traced=not is_reward
    )
    levels = [normal + distance for distance in course]
    side = math.copysign(1.0, furthest)
    by_factors = _by_factors(metric)
    left = left_trend(values[:split], levels, side, offset, by_factors=by_factors)
    began, evident = (max(place, left or 0) + offset for place in (began, evident))
    if is_reward and left == 0:  # otherwise it has just left a trend
        began = evident = left_level(values, began, normal, spread, side)
    began = first_unlike(values, spread, side, began=began, evident=evident)
    if gradual and left is not None:
        bend = left_line(values[: evident + _SURELY_AFTER], side, by_factors=by_factors)
        began = began if bend is None else min(began, bend)
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
        in_line=is_in_line(values, furthest, spread),
        normal=usual,
        rows=len(series),
        pauses=pauses(values, furthest, spread),
        first=median(values[:_END_ROWS]),
        evident=series[max(began, evident)][0],
        path=tuple((series[split + i + median_of - 1][0], far) for i, far in enumerate(away)),
    )


def _reward_median_of(values: list[float], spread: float) -> int:
    """Return how many values show the level of a reward."""
    usual = median(values[-_REWARD_MEDIAN_OF:])
    away = [value - usual for value in values[-_JUMPING_VALUES:]]
    is_jumping = max(min(away), -max(away)) > _JUMPING_SPREADS * spread
    return _JUMPING_MEDIAN_OF if is_jumping else _REWARD_MEDIAN_OF


def _has_drifted(values: list[float]) -> bool:
    """Return whether the last values are clearly elsewhere than the first ones.

    The noise is that of steps from one value to the next, which a trend does not enlarge.
    """
    first, latest = median(values[:_END_ROWS]), median(values[-_END_ROWS:])
    steps = [abs(after - before) for before, after in pairwise(values)]
    noise = MAD_TO_STD * median(steps) / math.sqrt(2.0)
    return abs(latest - first) > max(_FLAT_SPREADS * noise, _MIN_SHARE * abs(first))


def _by_factors(metric: str) -> bool:
    known = METRICS.get(metric)
    return known is not None and known.changes_by_factors


def _direction(away: float, min_distance: float) -> Direction:
    return "flat" if abs(away) <= min_distance else "up" if away > 0.0 else "down"
