"""Recoveries: whether a metric is back where it was when its incident is over.

Detectors that learn get used to a level that lasts, and then say no more. That is no recovery.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from klarm.detectors import Detector
from klarm.incidents.trends import RecentRows
from klarm.types import ROLLED_BACK, Event, Incident

# What a metric is when its incident is over: its middle over so many steps.
_AT_THE_END = 10
_FAR = 3.0
# That this rose may be worth an alarm, but nobody wants it back.
_BETTER_HIGH = "reward"


class _Trouble(NamedTuple):
    """What the metric that an incident began with was before, and its worst."""

    normal: float
    worst: float


class Recoveries:
    """Follows the incidents of a run, the one of each signal."""

    def __init__(self, detectors: Iterable[Detector], recent: RecentRows) -> None:
        self._measures = {detector.name: detector.measures for detector in detectors}
        self._recent = recent
        self.clear()

    def clear(self) -> None:
        """Forget them, as before a run is gone through again."""
        self._normal: dict[str, float] = {}  # by signal, of the incident that is open
        self._lasting: dict[str, _Trouble] = {}  # by metric, what an earlier one ended with

    def follow(self, event: Event) -> Event:
        """Take in a change of an incident; return it, saying so if it ends without recovery."""
        metric = self._metric(event)
        if event.event == "opened":
            before = self._before(event, metric)
            # Gone through again, it may begin before the rows that are kept.
            known = self._normal.get(event.signal, math.nan)
            self._normal[event.signal] = known if math.isnan(before) else before
        if event.event != "resolved" or event.reason == ROLLED_BACK or not event.recovered:
            return event
        normal = self._normal.pop(event.signal, math.nan)
        worst = event.peak if isinstance(event.peak, float) else math.nan
        if not math.isfinite(worst):  # a NaN by itself is over when it is; was it bad besides?
            worst = self._recent.furthest(metric, event.started, normal)
            worst = worst if _is_far(worst, normal) else math.nan
        now = self._recent.level(metric, event.step, steps=_AT_THE_END)
        # Who came down to where an earlier one had left it has not recovered either.
        trouble = self._lasting.get(metric, _Trouble(normal, worst))
        is_gain = metric == _BETTER_HIGH and trouble.worst > trouble.normal
        if is_gain or not stays_away(now, trouble.normal, trouble.worst):
            self._lasting.pop(metric, None)
            return event
        self._lasting[metric] = trouble
        stays = f"but {metric} stays at {now:.3g} (before {normal:.3g}, worst {worst:.3g})"
        return replace(event, reason=f"{event.reason}, {stays}", recovered=False)

    def lasts(self, incident: Incident) -> bool:
        """Tell whether the trouble that an incident ended with is still there."""
        metric = self._metric(incident)
        trouble = self._lasting.get(metric)
        now = self._recent.level(metric, steps=_AT_THE_END)
        return trouble is not None and stays_away(now, trouble.normal, trouble.worst)

    def _metric(self, of: Event | Incident) -> str:
        """Return the metric that an incident began with, which its peak is of."""
        return self._measures.get(of.detectors[0], "")

    def _before(self, event: Event, metric: str) -> float:
        """Return what the metric was before an incident, and before one that never ended well."""
        level = self._recent.level(metric, event.started - 1)
        lasting = self._lasting.get(metric)
        if lasting is None:
            return level
        if stays_away(level, lasting.normal, lasting.worst):
            return lasting.normal
        del self._lasting[metric]  # it has recovered meanwhile
        return level


def _is_far(value: float, normal: float) -> bool:
    """Tell whether a value is no mere noise or growth; of what is not positive nothing is known."""
    return 0.0 < _FAR * normal <= value or 0.0 < _FAR * value <= normal


def stays_away(now: float, normal: float, furthest: float) -> bool:
    """Tell whether a metric is still nearer to its furthest than to what was normal.

    In proportion, where that has a meaning.

    >>> stays_away(5.0, 0.02, 50.0), stays_away(0.03, 0.02, 50.0), stays_away(-1.0, 0.5, -3.0)
    (True, False, False)
    """
    if not all(map(math.isfinite, (now, normal, furthest))):
        return False
    if min(now, normal, furthest) > 0.0:
        now, normal, furthest = math.log(now), math.log(normal), math.log(furthest)
    return abs(now - furthest) < abs(now - normal)
