"""Recoveries: whether a metric is back where it was when its incident is over.

Detectors that learn get used to a level that lasts, and then say no more. That is no recovery.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from klarm.detectors import Detector
from klarm.movements import RecentRows
from klarm.types import ROLLED_BACK, Event

# What a metric is when its incident is over: its middle over so many steps.
_AT_THE_END = 10
# That this rose may be worth an alarm, but nobody wants it back.
_BETTER_HIGH = "reward"


class _Trouble(NamedTuple):
    """The metric that an incident began with: what it was before, and its worst."""

    metric: str
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
        self._lasting: dict[str, _Trouble] = {}  # by signal, what an earlier one ended with

    def follow(self, event: Event) -> Event:
        """Take in a change of an incident; return it, saying so if it ends without recovery."""
        metric = self._measures.get(event.detectors[0], "")
        if event.event == "opened":
            self._normal[event.signal] = self._before(event, metric)
        if event.event != "resolved" or event.reason == ROLLED_BACK:
            return event
        normal = self._normal.pop(event.signal, math.nan)
        worst = event.peak if isinstance(event.peak, float) else math.nan
        now = self._recent.level(metric, event.step, steps=_AT_THE_END)
        trouble = _Trouble(metric, normal, worst)
        # Who came down to where an earlier one had left it has not recovered either.
        trouble = self._lasting.get(event.signal, trouble)
        is_gain = metric == _BETTER_HIGH and trouble.worst > trouble.normal
        is_back = not stays_away(now, trouble.normal, trouble.worst)
        if trouble.metric != metric or is_gain or is_back:
            self._lasting.pop(event.signal, None)
            return event
        self._lasting[event.signal] = trouble
        stays = f"but {metric} stays at {now:.3g} (before {normal:.3g}, worst {worst:.3g})"
        return replace(event, reason=f"{event.reason}, {stays}", recovered=False)

    def lasts(self, signal: str) -> bool:
        """Tell whether the trouble that an incident on a signal ended with is still there."""
        trouble = self._lasting.get(signal)
        if trouble is None:
            return False
        now = self._recent.level(trouble.metric, steps=_AT_THE_END)
        return stays_away(now, trouble.normal, trouble.worst)

    def _before(self, event: Event, metric: str) -> float:
        """Return what the metric was before an incident, and before one that never ended well."""
        level = self._recent.level(metric, event.started - 1)
        lasting = self._lasting.get(event.signal)
        if lasting is None:
            return level
        if lasting.metric == metric and stays_away(level, lasting.normal, lasting.worst):
            return lasting.normal
        del self._lasting[event.signal]  # it has recovered meanwhile
        return level


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
