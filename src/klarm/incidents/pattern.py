"""Patterns: how metrics must have moved together for a likely cause. The playbook lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Literal, NamedTuple

from klarm.incidents.movement import Movement
from klarm.metrics import PROBE
from klarm.types import Direction

# A metric stays where it went if it is still at least this share of the way from where it was.
_MIN_STAYED = 0.5
# A reward has risen with another metric if at least this share of its rise came after that metric
# moved. SB3 logs a mean over the last hundred episodes, which still rises after a policy broke.
_MIN_SHARED_RISE = 0.25
# Metrics moved in an order if there are at least this many rows between their dates.
_MIN_ROWS_APART = 5
_REWARD = "reward"
KL, PROBED = "kl", PROBE[0]
_LOSS, _PARTS = "loss", ("actor_loss", "critic_loss")

UP: tuple[Direction, ...] = ("up",)
DOWN: tuple[Direction, ...] = ("down",)
BROKEN: tuple[Direction, ...] = ("broken",)
STILL_OR_DOWN: tuple[Direction, ...] = ("flat", "down")


@dataclass(frozen=True, slots=True)
class Explained:
    """The pattern that an incident was last explained by."""

    pattern: str
    # The levels of its metrics then: before they moved, and where they were.
    levels: dict[str, tuple[float, float]]
    returns: bool = False  # whether its remedy goes back to a checkpoint


class Circumstances(NamedTuple):
    """What a pattern may depend on besides the metrics that moved."""

    started: float = inf  # the step of the incident's first alert
    far: bool = False  # KL is above half its budget
    over: bool = False  # KL has exceeded its budget
    critical: bool = False
    early: bool = False  # the policy broke down when the run had just begun
    before: Explained | None = None  # how the incident was explained before


@dataclass(frozen=True)
class Pattern:
    """Movements of metrics, and what they mean. A metric that is not logged fits no condition."""

    name: str
    # The signals whose incidents it explains.
    explains: tuple[str, ...]
    moved: dict[str, tuple[Direction, ...]]
    cause: str
    remedy: str  # {before} stands for "from before step 152"
    # These metrics moved in this order. All but the last may have turned back since.
    order: tuple[str, ...] = ()
    # The minimum factor over its normal level, by metric.
    min_factor: dict[str, float] = field(default_factory=dict)
    # far: only if KL is far. harmless: only if it is not, and the incident is a warning.
    # critical: only if the incident is. early: only if, moreover, the run has just begun.
    only: Literal["", "far", "harmless", "critical", "early"] = ""
    # This metric must have moved no later than the incident began.
    cause_metric: str = ""
    # If this metric moved at once, others that only went on as before did not cause it.
    not_at_once: str = ""
    # Whether a jump of the learning rate would look the same, if nobody sees it.
    like_a_jump: bool = False
    # Whether the remedy is to go back to a checkpoint or to the start: first of all, or later.
    returns: Literal["", "first", "later"] = ""
    # The cause to give once KL has exceeded its budget, if it is another one.
    cause_if_over: str = ""

    @property
    def is_of_broken_values(self) -> bool:
        """Whether all that it goes by is that metrics are not finite."""
        return bool(self.moved) and all(went == BROKEN for went in self.moved.values())

    def fits(self, movements: Iterable[Movement], at: Circumstances) -> bool:
        """Return whether the pattern fits these movements."""
        if not self._is_possible(at):
            return False
        found = {movement.metric: movement for movement in movements}
        for metric, directions in self.moved.items():
            movement = found.get(metric)
            if movement is None:
                return False
            where = movement.direction if metric in self.order[:-1] else movement.lately
            if metric == _REWARD and where == "up" and not self._rose_with_others(found):
                where = "flat"
            if where not in directions or movement.factor < self.min_factor.get(metric, -inf):
                return False
        if self.cause_metric:
            raised = found[self.cause_metric].step
            others = [m for m in found.values() if m.metric != self.cause_metric]
            followed = any(m.direction != "flat" and m.step >= raised for m in others)
            if not followed or raised > at.started:
                return False
        if self.not_at_once and found[self.not_at_once].was_sudden:
            others = [found[metric] for metric in self.moved if metric != self.not_at_once]
            if all(other.steady for other in others):
                return False
        return self._is_in_order(found)

    def still_fits(self, movements: Iterable[Movement], at: Circumstances) -> bool:
        """Return whether it explained the incident before, and its metrics stay where they went.

        A metric that stays there looks flat in the rows that are looked at.
        """
        if at.before is None or at.before.pattern != self.name or not self._is_possible(at):
            return False
        found = {movement.metric: movement for movement in movements}
        for metric, directions in self.moved.items():
            movement = found.get(metric)
            if movement is None:
                return False
            if movement.lately in directions:
                continue
            if movement.lately != "flat" or metric not in at.before.levels:
                return False
            usual, reached = at.before.levels[metric]
            if (movement.level - usual) / (reached - usual or inf) < _MIN_STAYED:
                return False
        return self._is_in_order(found)

    def levels_in(self, movements: Iterable[Movement]) -> dict[str, tuple[float, float]]:
        """Return the levels of its metrics that moved: before, and now."""
        found = {m.metric: m for m in as_patterns_see(movements) if m.metric in self.moved}
        return {m.metric: m.levels for m in found.values() if m.direction in ("up", "down")}

    def steps_in(self, movements: Iterable[Movement]) -> list[int]:
        """Return the steps at which the metrics moved that the pattern names."""
        stand_ins = {PROBED: KL, **dict.fromkeys(_PARTS, _LOSS)}
        moved = [movement for movement in movements if movement.direction != "flat"]
        return [
            m.step for m in moved if m.metric in self.moved or stand_ins.get(m.metric) in self.moved
        ]

    def _is_in_order(self, found: Mapping[str, Movement]) -> bool:
        known = [found[metric] for metric in self.order if metric in found]
        moved = [movement for movement in known if movement.direction != "flat"]
        return all(_is_before(earlier, later) for earlier, later in pairwise(moved))

    def _is_possible(self, at: Circumstances) -> bool:
        if (self.only == "far" and not at.far) or (self.only == "early" and not at.early):
            return False
        if self.only == "critical" and not at.critical:
            return False
        return self.only != "harmless" or not (at.far or at.critical)

    def _rose_with_others(self, found: Mapping[str, Movement]) -> bool:
        """Return whether enough of the rise of the reward came after the other metrics moved."""
        others = [found[metric] for metric in self.moved if metric != _REWARD and metric in found]
        moved = [other.evident or other.step for other in others if other.direction != "flat"]
        return all(found[_REWARD].share_since(step) >= _MIN_SHARED_RISE for step in moved)


def _is_before(earlier: Movement, later: Movement) -> bool:
    """Return whether one movement clearly began before another: dates are off by a few rows."""
    if earlier.rows_ago is not None and later.rows_ago is not None:
        return earlier.rows_ago - later.rows_ago >= _MIN_ROWS_APART
    return earlier.step < later.step


def as_patterns_see(movements: Iterable[Movement]) -> list[Movement]:
    """Return movements with one KL and one loss, whichever of them is logged."""
    return _with_whole_loss(_with_one_kl(movements))


def _with_one_kl(movements: Iterable[Movement]) -> list[Movement]:
    """Use the KL of the probe where the trainer logs none, or where the trainer's is flat."""
    found = {movement.metric: movement for movement in movements}
    trainers, probes = found.get(KL), found.get(PROBED)
    if probes is not None and (trainers is None or trainers.direction == "flat"):
        found[KL] = probes._replace(metric=KL)
    return list(found.values())


def _with_whole_loss(movements: Iterable[Movement]) -> list[Movement]:
    """Let a part of the loss that is not finite stand for the whole, where that is not logged."""
    found = {movement.metric: movement for movement in movements}
    parts = [found[part] for part in _PARTS if part in found]
    broken = next((part for part in parts if part.direction == "broken"), None)
    if broken is not None and _LOSS not in found:
        found[_LOSS] = broken._replace(metric=_LOSS)
    return list(found.values())
