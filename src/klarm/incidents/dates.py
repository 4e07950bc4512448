"""Since when metrics have moved, the same in all messages of an episode.

A diagnosis dates a movement by its way so far and looks at a hundred rows, so the same movement
would be dated later the further it goes, and forgotten once it fills these rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from klarm.incidents.movement import RATE, Before, Movement, in_order
from klarm.incidents.pattern import Explained
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.trends import LOOK_BACK, level_before, not_before_a_raised_rate
from klarm.stats import median
from klarm.types import Direction, Incident, Worse

# A movement is over when the median of this many values is near its level before.
_MEDIAN_OF = 10


@dataclass(frozen=True, slots=True)
class Since:
    """Since when a metric has moved, as messages have said it."""

    step: int
    before: Before | None  # its level before that step; None if too few values were known
    last_seen: int  # the last step at which a message listed it


class Own(NamedTuple):
    """The date of a metric's own incident."""

    step: int
    lasts: bool  # the incident was open before and has not settled, so the movement goes on
    before: float = math.nan  # the level before it that the incident shows; NaN if unknown


Moving = tuple[str, Direction]  # a metric, and which way it goes


@dataclass(slots=True)
class Said:
    """What messages have said while incidents were open."""

    since: dict[Moving, Since] = field(default_factory=dict)
    causes: dict[int, Explained] = field(default_factory=dict)  # by the number of the incident

    def clear(self) -> None:
        """Forget what was said of an earlier episode."""
        self.since.clear()
        self.causes.clear()

    def copy(self) -> Said:
        """Return a copy, whose changes leave no trace."""
        return Said(dict(self.since), dict(self.causes))


class Dates(NamedTuple):
    """The dates that are known of movements: those of their own incidents, and those said before.

    What was said is remembered in `said`, which belongs to the caller.
    """

    of_incidents: Mapping[Moving, Own]
    said: Said

    @classmethod
    def of(cls, incidents: Iterable[tuple[Incident, float]], said: Said) -> Dates:
        """Combine open incidents, each with the level before it, with what was said meanwhile."""
        dates = cls({}, said)
        for incident, before in incidents:
            dates = dates.including(incident, before)
        return dates

    def including(
        self, incident: Incident, before: float = math.nan, *, opens: bool = False
    ) -> Dates:
        """Add the date of an incident, if it has one; `opens` says that it opens in this row."""
        if incident.onset is None:
            return self
        key = incident.metric, direction_of(incident.worse)
        own = Own(incident.onset, incident.state == "open" and not opens, before)
        return Dates({**self.of_incidents, key: own}, self.said)

    def own_onset(
        self, metric: str, went: Direction, recent: RecentRows, *, started: int, raised: int
    ) -> int | None:
        """Return since when a metric has moved, if that was said before its own incident.

        `raised` is the step at which the learning rate was raised, or 0.
        """
        since = self.said.since.get((metric, went))
        if since is None or _moved_again(since, raised, started):
            return None
        return since.step if _goes_on(metric, went, since, recent) else None

    def applied_to(self, movements: Iterable[Movement], recent: RecentRows) -> list[Movement]:
        """Return the movements with these dates and the levels before them, in their order."""
        movements = [self._continued(movement, recent) for movement in movements]
        raised = raised_at(movements)
        steps = [step for step, _ in recent.last(LOOK_BACK)]
        began = min((own.step for own in self.of_incidents.values()), default=math.inf)
        since_then = bool(steps) and began < steps[len(steps) // 2]
        dated = [
            self._dated(movement, recent, raised)._replace(since_then=since_then)
            for movement in movements
        ]
        dated = [
            _with_level(m, recent)._replace(
                rows_ago=recent.rows_since(m.step), shown_before=self._shown_before(m)
            )
            for m in not_before_a_raised_rate(dated, steps)
        ]
        for movement in dated:
            if _is_dated(movement) and movement.is_worth_saying:
                key = movement.metric, movement.direction
                self.said.since[key] = Since(movement.step, movement.before, steps[-1])
        return in_order(dated)

    def _continued(self, movement: Movement, recent: RecentRows) -> Movement:
        """Return a movement that fills the rows looked at, and so looks flat in them, as it is."""
        if movement.direction != "flat" or movement.metric == RATE:
            return movement
        ways: tuple[Direction, Direction] = ("up", "down")
        for went in ways:
            own = self.of_incidents.get((movement.metric, went))
            since = self.said.since.get((movement.metric, went))
            if own is not None and own.lasts:
                step = own.step
            elif (
                since is not None
                and _first(recent) <= since.last_seen
                and _goes_on(movement.metric, went, since, recent)
            ):
                step = since.step
            else:
                continue
            before = self._level_before(movement.metric, went, step, recent)
            found = movement._replace(
                direction=went, step=step, before=before, reached=movement.level, steady=False
            )
            if before is not None and found.is_worth_saying:
                return found
        return movement

    def _dated(self, movement: Movement, recent: RecentRows, raised: int) -> Movement:
        if not _is_dated(movement):
            return movement
        metric, went, step = movement.metric, movement.direction, movement.step
        own, since = self.of_incidents.get((metric, went)), self.said.since.get((metric, went))
        # What has moved since then has not if it moved before these rows.
        if own is not None and (own.lasts or _first(recent) <= own.step):
            step = own.step
        elif (
            since is not None
            and since.step < step
            and not _moved_again(since, raised, step)
            and _goes_on(metric, went, since, recent)
        ):
            step = since.step
        elif not movement.is_worth_saying:
            return movement
        before = self._level_before(metric, went, step, recent)
        if before is None and step < _first(recent):
            movement = movement._replace(factor=math.nan)  # it is that of later rows
        return movement._replace(step=step, before=before, steady=False)

    def _level_before(
        self, metric: str, went: Direction, step: int, recent: RecentRows
    ) -> Before | None:
        since = self.said.since.get((metric, went))
        if since is not None and since.step == step and since.before is not None:
            return since.before  # its rows may no longer be kept
        return level_before(recent, metric, step)

    def _shown_before(self, movement: Movement) -> float:
        """Return the level before a movement that its own incident shows; NaN if it has none."""
        if not _is_dated(movement):
            return math.nan
        own = self.of_incidents.get((movement.metric, movement.direction))
        return math.nan if own is None or own.step != movement.step else own.before


def direction_of(worse: Worse) -> Direction:
    """Return which way a metric goes if it gets worse."""
    return "up" if worse == "higher" else "down"


def raised_at(movements: Iterable[Movement]) -> int:
    """Return the step at which the learning rate was raised; 0 if it was not."""
    return next((m.step for m in movements if m.metric == RATE and m.direction == "up"), 0)


def _moved_again(since: Since, raised: int, step: int) -> bool:
    """Return whether the learning rate was raised since, so that this is another movement."""
    return since.step < raised <= step


def _is_dated(movement: Movement) -> bool:
    """Return whether its date is an estimate: the steps of a NaN and of a learning rate are not."""
    return movement.direction in ("up", "down") and movement.metric != RATE


def _with_level(movement: Movement, recent: RecentRows) -> Movement:
    if movement.before is not None or not _is_dated(movement):
        return movement
    return movement._replace(before=level_before(recent, movement.metric, movement.step))


def _first(recent: RecentRows) -> int:
    rows = recent.last(LOOK_BACK)
    return rows[0][0] if rows else 0


def _goes_on(metric: str, went: Direction, since: Since, recent: RecentRows) -> bool:
    """Return whether it is the same movement: one that began in these rows, or never came back."""
    if _first(recent) <= since.step:
        return True
    if since.before is None:
        return False
    values = recent.finite_values(metric, since.last_seen, math.inf)
    places = range(len(values) - _MEDIAN_OF + 1)
    medians = (median(values[place : place + _MEDIAN_OF]) for place in places)
    return all(since.before.is_left_by(level, went) for level in medians)
