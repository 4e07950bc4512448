"""Recovery: whether a metric is back at its level before the incident.

Detectors that learn get used to a lasting level and stop raising alerts. That is not a recovery.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from klarm.incidents.recent_rows import RecentRows
from klarm.metrics import METRICS
from klarm.stats import median
from klarm.types import Worse

# The current level of a metric is the median of this many latest values.
LEVEL_ROWS = 10
# A metric that has fallen may have risen for a long time before. It is back when it is back at its
# median over this many rows before the fall, which may be far above its median over all rows kept.
_JUST_BEFORE_ROWS = 50
# What people read as the level before an incident is the median of a few values before its onset,
# at least of this many: a metric may have risen slowly for a long time.
_MIN_SHOWN_ROWS = 5
# The level of a trouble is the median over this many rows in alert: a single row may be far worse.
_TROUBLE_ROWS = 5
# A rise of this metric may be worth an alert, but nobody wants it to fall again.
BETTER_HIGH = "reward"

Kind = tuple[str, Worse]  # a metric, and which direction is worse


@dataclass
class Course:
    """The course of one metric within an incident: its level before, and its worst value."""

    kind: Kind
    first: int  # the step of its first alert
    worst: float
    by_level: bool  # whether it ends when the level is back, or as soon as it is quiet
    by_size: bool = False  # whether absolute values count: a loss may explode to either side
    normal: float = math.nan  # decides whether it has recovered
    before: float = math.nan  # the level just before the onset, which people read
    fell_from: float = math.nan  # the level it must return to: at least the normal one
    # The level that detectors compared with, the best of their alerts: they may look back further
    # than the rows that are kept, and the first alert of a slow fall comes from inside it.
    came_from: float = math.nan
    # Where the incident before this one settled: a return to that level is not a recovery.
    settled: float = math.nan
    # The worst level in alert; NaN if no value in alert was finite, so that there is none to leave.
    worst_level: float = math.nan
    latest: list[tuple[int, float]] = field(default_factory=list)  # finite values in alert, by step
    rows: int = 0  # the number of steps with such a value

    def __post_init__(self) -> None:
        """Begin with the value of the first alert."""
        self.add(self.worst, self.first)

    def add(self, value: float, step: int) -> None:
        """Add the value of an alert."""
        worse = self.kind[1]
        if is_worse(value, self.worst, worse):
            self.worst = value
        if not math.isfinite(value):
            return
        value = abs(value) if self.by_size else value
        if self.latest and self.latest[-1][0] == step:  # another detector
            if is_worse(self.latest[-1][1], value, worse):
                value = self.latest[-1][1]
            self.latest[-1] = step, value
        else:
            self.latest = [*self.latest[1 - _TROUBLE_ROWS :], (step, value)]
            self.rows += 1
        self._raise_level(median([known for _, known in self.latest]))

    def note_came_from(self, level: float) -> None:
        """Note the level that the detector of an alert compared with; NaN if it names none."""
        self.came_from = self._better(self.came_from, level)

    def merge(self, other: Course) -> None:
        """Add the alerts of another episode of the same problem."""
        self.note_came_from(other.came_from)
        if is_worse(other.worst, self.worst, self.kind[1]):
            self.worst = other.worst
        if other.rows:
            self.latest, self.rows = other.latest, self.rows + other.rows
            self._raise_level(other.worst_level)

    def _raise_level(self, level: float) -> None:
        # A median of fewer rows only counts as long as there are no more.
        if self.rows <= _TROUBLE_ROWS or is_worse(level, self.worst_level, self.kind[1]):
            self.worst_level = level

    def follow(self, earlier: Course, level: float) -> None:
        """Continue the course of a settled incident, with the normal level from before it."""
        self.normal, self.fell_from = earlier.normal, earlier.fell_from
        self.before = earlier.before
        self.note_came_from(earlier.came_from)
        self.settled = level if math.isnan(earlier.settled) else earlier.settled

    def measure_normal(self, recent: RecentRows) -> None:
        """Set the normal level from the rows before the first alert."""
        if math.isnan(self.normal):
            self._set_normal(recent, self.first)

    def measure_before(self, recent: RecentRows, onset: int) -> None:
        """Set the levels from before the onset, once, if enough rows from before it are known."""
        if math.isnan(self.before):
            metric, worse = self.kind
            end = min(onset, self.first)
            self._set_normal(recent, end)
            found = recent.just_before(metric, end)
            enough = len(found) >= _MIN_SHOWN_ROWS
            self.before = self._shown(found) if enough else self.normal
            # The onset may be dated some rows late, inside a fall, or inside the rise of a reward,
            # which is noisy. The level of more rows may be NaN.
            just_before = recent.level(metric, end - 1, _JUST_BEFORE_ROWS)
            if worse == "lower" or metric == BETTER_HIGH:
                self.before = self._better(self.before, just_before)

    @property
    def shown_before(self) -> float:
        """The level before the incident, which people read; NaN if unknown."""
        before = self.normal if math.isnan(self.before) else self.before
        return self._better(before, self.came_from)

    def _set_normal(self, recent: RecentRows, end: int) -> None:
        """Set the normal level from the rows before a step, unless there are too few."""
        metric, worse = self.kind
        normal = recent.level(metric, end - 1, sizes=self.by_size)
        if math.isnan(normal):
            return
        self.normal = self.fell_from = normal
        if worse == "lower":
            just_before = recent.level(metric, end - 1, _JUST_BEFORE_ROWS)
            self.fell_from = self._better(normal, just_before)

    def _better(self, level: float, other: float) -> float:
        """Return the better of two levels, of which either may be unknown (NaN)."""
        if math.isnan(level) or math.isnan(other):
            return other if math.isnan(level) else level
        return max(level, other) if self.kind[1] == "lower" else min(level, other)

    def is_back(self, recent: RecentRows) -> bool:
        """Return whether the metric has recovered, given that there are no alerts."""
        metric, worse = self.kind
        if not self.by_level or (metric == BETTER_HIGH and worse == "higher"):
            return True
        now, before = self.level(recent), self._better(self.fell_from, self.came_from)
        # If no finite value was in alert, the level does not matter: it may have grown by learning.
        furthest = (self.worst_level, self.settled)
        return not any(stays_away(now, before, far, self.kind) for far in furthest)

    def level(self, recent: RecentRows) -> float:
        """Return the current level of the metric; NaN if unknown."""
        return recent.latest(self.kind[0], LEVEL_ROWS, sizes=self.by_size)

    def shown_level(self, recent: RecentRows) -> float:
        """Return the same as people read it, with its sign."""
        level = self.level(recent)
        if not self.by_size or math.isnan(level):
            return level
        found = recent.finite_values(self.kind[0], -math.inf, math.inf)
        return self._shown(found[-LEVEL_ROWS:])

    def _shown(self, values: list[float]) -> float:
        """Return the median of values; of their sizes, if these count and the signs differ."""
        differ = self.by_size and min(values) < 0.0 < max(values)
        return median(abs(value) for value in values) if differ else median(values)


def stays_away(now: float, normal: float, furthest: float, kind: Kind) -> bool:
    """Return whether a metric is still closer to its furthest value than to its normal level.

    >>> kl, reward = ("kl", "higher"), ("reward", "lower")
    >>> stays_away(5.0, 0.02, 50.0, kl), stays_away(0.03, 0.02, 50.0, kl)
    (True, False)
    >>> stays_away(0.1, 0.6, 0.01, reward), stays_away(0.5, 0.6, 0.01, reward)
    (True, False)
    """
    if not all(map(math.isfinite, (now, normal, furthest))):
        return False
    if min(now, normal, furthest) > 0.0 and changes_by_factors(kind):
        now, normal, furthest = math.log(now), math.log(normal), math.log(furthest)
    return abs(now - furthest) < abs(now - normal)


def changes_by_factors(kind: Kind) -> bool:
    """Return whether ratios of a metric are compared. If it is unknown, the stricter is assumed."""
    metric, worse = kind
    known = METRICS.get(metric)
    return worse == "higher" if known is None else known.changes_by_factors


def is_worse(value: float, than: float, worse: Worse) -> bool:
    """Compare two values. One that is not finite is worse than any finite one; NaN is the worst."""
    if math.isfinite(value) and math.isfinite(than):
        return value > than if worse == "higher" else value < than
    return math.isfinite(than) or math.isnan(value)


def is_times_worse(value: float, than: float, worse: Worse, factor: float) -> bool:
    """Return whether a value is worse by a factor.

    Two negative values are compared by their absolute values. Across 0 a factor means nothing, so
    any worse value counts.

    >>> is_times_worse(3.0, 2.0, "higher", 1.5), is_times_worse(0.1, 0.2, "lower", 1.5)
    (True, True)
    >>> is_times_worse(0.0, 0.1, "lower", 10.0), is_times_worse(-50.0, -1.2, "lower", 10.0)
    (True, True)
    """
    if not math.isfinite(value):
        return math.isfinite(than)
    if not math.isfinite(than) or not is_worse(value, than, worse):
        return False
    if value > 0.0 and than > 0.0:
        low, high = sorted((value, than))
        return low * factor <= high
    if value < 0.0 and than < 0.0:
        low, high = sorted((-value, -than))
        return low * factor <= high
    return True


def is_further(value: float, than: float, kind: Kind, factor: float, normal: float) -> bool:
    """Return whether a value is worse by a factor than another that people were notified of.

    A fall, or a value across 0, is measured by its distance from normal: entropy that fell from 0.8
    to 0.01 is not ten times worse at 0.001.

    >>> is_further(0.001, 0.01, ("entropy", "lower"), 10.0, normal=0.8)
    False
    >>> is_further(5.0, 0.5, ("kl", "higher"), 10.0, normal=0.02)
    True
    """
    worse = kind[1]
    by_distance = worse == "lower" or min(value, than) <= 0.0
    if by_distance and all(map(math.isfinite, (value, than, normal))):
        return is_worse(value, than, worse) and (
            abs(value - normal) >= factor * abs(than - normal) > 0.0
        )
    return is_times_worse(value, than, worse, factor)
