"""Since when metrics have moved, the same in all messages of an episode.

A diagnosis dates a movement by its way so far, so the same movement would be dated later the
further it goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from klarm.incidents.movement import RATE, Direction, Movement, in_order
from klarm.incidents.trends import not_before_a_raised_rate
from klarm.types import Incident

Said = dict[str, tuple[Direction, int]]  # by metric, its direction and the earliest step


class Dates(NamedTuple):
    """The dates that are known of movements: those of their own incidents, and those said before.

    What was said is remembered in `said`, which belongs to the caller.
    """

    of_incidents: Mapping[tuple[str, Direction], int]
    said: Said

    @classmethod
    def of(cls, incidents: Iterable[Incident], said: Said) -> Dates:
        """Combine the incidents that are open with what was said while they were."""
        dates: dict[tuple[str, Direction], int] = {}
        for incident in incidents:
            went: Direction = "up" if incident.worse == "higher" else "down"
            # Without an onset, it has opened in this very row and is yet to be dated.
            if incident.onset is not None:
                dates[incident.metric, went] = incident.onset
        return cls(dates, said)

    def own_onset(self, metric: str, went: Direction, steps: list[int]) -> int | None:
        """Return since when a metric has moved, if that was said before its own incident."""
        known, earliest = self.said.get(metric, ("flat", 0))
        return earliest if known == went and earliest in steps else None

    def applied_to(self, movements: Iterable[Movement], steps: list[int]) -> list[Movement]:
        """Return the movements with these dates, in their order, given the steps looked at."""
        movements = list(movements)
        raised = next((m.step for m in movements if m.metric == RATE and m.direction == "up"), 0)
        # What has moved since then has not if it moved before these rows.
        first = steps[0] if steps else 0
        dated = [self._dated(movement, first, raised) for movement in movements]
        return in_order(not_before_a_raised_rate(dated, steps))

    def _dated(self, movement: Movement, first: int, raised: int) -> Movement:
        metric, went, step = movement.metric, movement.direction, movement.step
        if went not in ("up", "down") or metric == RATE:
            return movement  # the steps of a NaN and of a learning rate are exact
        own = self.of_incidents.get((metric, went))
        known, earliest = self.said.get(metric, (went, step))
        # What moved before the learning rate was raised moved again with it.
        goes_on = known == went and first <= earliest < step and not earliest < raised <= step
        if own is not None and first <= own:
            step = own
        elif goes_on:
            step = earliest
        elif not movement.is_worth_saying:
            return movement
        self.said[metric] = went, step
        return movement._replace(step=step, steady=False)
