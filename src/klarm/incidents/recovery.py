"""Recovery: whether a metric is back at its level before the incident.

Detectors that learn get used to a lasting level and stop raising alerts. That is not a recovery.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from klarm.incidents.recent_rows import RecentRows
from klarm.stats import median
from klarm.types import Worse

# The current level of a metric is the median of this many latest values.
LEVEL_ROWS = 10
# A metric that has fallen may have risen for a long time before. It is back when it is back at its
# median over this many rows before the fall, which may be far above its median over all rows kept.
_JUST_BEFORE_ROWS = 50
# What people read as the level before an incident is the median of this many values before its
# onset: a metric may have risen slowly for a long time.
_SHOWN_ROWS = 5
# A value is far from normal if it is this many times as high or as low.
_FAR_FACTOR = 3.0
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
    # Where the incident before this one settled: a return to that level is not a recovery.
    settled: float = math.nan

    def follow(self, earlier: Course, level: float) -> None:
        """Continue the course of a settled incident, with the normal level from before it."""
        self.normal, self.fell_from = earlier.normal, earlier.fell_from
        self.before = earlier.before
        self.settled = level if math.isnan(earlier.settled) else earlier.settled

    def measure_normal(self, recent: RecentRows) -> None:
        """Set the normal level from the rows before the first alert."""
        if math.isnan(self.normal):
            metric, worse = self.kind
            self.normal = self.fell_from = recent.level(metric, self.first - 1, sizes=self.by_size)
            if worse == "lower":
                just_before = recent.level(metric, self.first - 1, _JUST_BEFORE_ROWS)
                self.fell_from = max(self.fell_from, just_before)

    def measure_before(self, recent: RecentRows, onset: int) -> None:
        """Set the level just before the onset, once; if too few rows are known, the normal one."""
        if math.isnan(self.before):
            found = recent.finite_values(self.kind[0], -math.inf, min(onset, self.first))
            latest = [abs(value) if self.by_size else value for value in found[-_SHOWN_ROWS:]]
            self.before = median(latest) if len(latest) == _SHOWN_ROWS else self.normal

    def is_back(self, recent: RecentRows) -> bool:
        """Return whether the metric has recovered, given that there are no alerts."""
        metric, worse = self.kind
        if not self.by_level or (metric == BETTER_HIGH and worse == "higher"):
            return True
        worst = self.worst
        if not math.isfinite(worst):  # a NaN has passed; were the finite values bad, too?
            worst = recent.furthest(metric, self.first, self.normal)
            worst = worst if _is_far(worst, self.normal) else math.nan
        now, before = self.level(recent), self.normal
        if math.isfinite(self.fell_from):
            before = self.fell_from
        return not any(stays_away(now, before, far) for far in (worst, self.settled))

    def level(self, recent: RecentRows) -> float:
        """Return the current level of the metric; NaN if unknown."""
        return recent.latest(self.kind[0], LEVEL_ROWS, sizes=self.by_size)


def stays_away(now: float, normal: float, furthest: float) -> bool:
    """Return whether a metric is still closer to its furthest value than to its normal level.

    Positive values are compared as ratios.

    >>> stays_away(5.0, 0.02, 50.0), stays_away(0.03, 0.02, 50.0), stays_away(-1.0, 0.5, -3.0)
    (True, False, False)
    """
    if not all(map(math.isfinite, (now, normal, furthest))):
        return False
    if min(now, normal, furthest) > 0.0:
        now, normal, furthest = math.log(now), math.log(normal), math.log(furthest)
    return abs(now - furthest) < abs(now - normal)


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


def _is_far(value: float, normal: float) -> bool:
    """Return whether a value is more than noise or growth; only known for positive values."""
    return 0.0 < _FAR_FACTOR * normal <= value or 0.0 < _FAR_FACTOR * value <= normal
