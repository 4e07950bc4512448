"""How a metric moved, and which movements are worth telling."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from klarm.types import Direction, Moved, Telling

RATE = "learning_rate"
_KL = "kl"
# Only of these does a reader want to know that they did not move.
_TELLING_IF_FLAT = (_KL, "entropy", "reward")
# A movement took place at once if its running median was on the way, between these shares of it,
# for at most this many rows.
_ON_THE_WAY, _MAX_SUDDEN_ROWS = (0.25, 0.75), 5
# A movement is worth saying if it went further than this share of the level just before it, and
# than this many times the noise there.
_MIN_SHARE, _MIN_NOISE = 0.25, 2.0


@dataclass(frozen=True, slots=True)
class Before:
    """The last values of a metric before it moved."""

    level: float  # their median
    noise: float  # their scatter around it
    all_positive: bool  # only then a factor means something

    def is_left_by(self, level: float, went: Direction) -> bool:
        """Return whether a level is clearly away from it in a direction."""
        gone = level - self.level if went == "up" else self.level - level
        return gone > max(_MIN_SHARE * abs(self.level), _MIN_NOISE * self.noise)


class Movement(NamedTuple):
    """How one metric moved."""

    metric: str
    direction: Direction
    step: int  # when it left its normal range; the last step if it did not
    # How far it went, over its level in the first half of the rows looked at; NaN if that means
    # nothing. People read how far it went since its step, which needs `before`.
    factor: float
    level: float = math.nan  # its current level
    reached: float = math.nan  # the same or, if it has turned back, its furthest level
    before: Before | None = None  # None if too few values before the step are known
    steady: bool = False  # whether it only went on as before
    since_then: bool = False  # whether "before" was after an incident had begun
    ended: Direction | None = None  # its current direction, if it has turned back
    # The distance of the median from normal, step by step.
    path: tuple[tuple[int, float], ...] = ()
    # From this step on, it was a quarter of the way from normal or further.
    evident: int = 0
    normal: Before | None = None  # the first half of the rows looked at
    rows: int = 0  # how many these were
    # Of one that counts as flat, because it is within its normal range: which way it goes.
    tends: Direction = "flat"
    pauses: bool = False  # in its last rows, it did not go on
    # Whether a flat one ends far from where these rows began, as one that moved before does.
    drifted: bool = False
    first: float = math.nan  # its level in the first of these rows
    # Whether a steady one has not become much faster than in the first half of the rows.
    in_line: bool = True
    # Whether the message of the alert says how far it went, which it measures over other rows.
    in_message: bool = False
    # The level before it that its own incident shows, which may go by more rows; NaN without one.
    # Messages about one run must not give two levels.
    shown_before: float = math.nan
    rows_ago: int | None = None  # how many rows its step is ago; None if that row is not kept
    key: str = ""  # what the user calls the metric, if that is another name

    @property
    def lately(self) -> Direction:
        """Its current direction."""
        return self.ended or self.direction

    @property
    def levels(self) -> tuple[float, float]:
        """Its level before it moved, as far as that is known, and the current one."""
        usual = self.before or self.normal
        return self.level / self.factor if usual is None else usual.level, self.level

    def share_since(self, step: int) -> float:
        """Return the share of its movement that came after a step; 1 if unknown."""
        before = [away for at, away in self.path if at < step]
        now = self.path[-1][1] if self.path else 0.0
        return 1.0 - before[-1] / now if before and now else 1.0

    @property
    def was_sudden(self) -> bool:
        """Whether it moved within a few rows; no if its course is unknown."""
        if not self.path:
            return False
        furthest = max(abs(away) for _, away in self.path)
        low, high = (share * furthest for share in _ON_THE_WAY)
        return sum(low < abs(away) < high for _, away in self.path) <= _MAX_SUDDEN_ROWS

    @property
    def is_worth_saying(self) -> bool:
        """Whether it went far since its step: growth that goes on as before is no movement."""
        if self.before is None or self.steady:
            return not self.steady
        return self.before.is_left_by(self.reached, self.direction)

    @property
    def goes_on(self) -> bool:
        """Whether it only goes on as it went before the incident."""
        as_before = self.steady and self.in_line and not self.since_then
        return as_before and self.ended is None and not self.pauses

    def dated(self, *, is_earlier: bool) -> Moved:
        """Return how far it went since its step."""
        moved = self._fact("dated" if not self.in_message else "in_alert", self.direction)
        moved = replace(moved, step=self.step, is_earlier=is_earlier, turned=self.ended)
        if self.direction == "broken" or self.in_message:
            return moved
        before = self.before
        if not math.isnan(self.shown_before):
            positive = self.shown_before > 0.0 and (before is None or before.all_positive)
            before = Before(self.shown_before, 0.0, positive)
        if before is None:
            return replace(moved, ratio=_finite(self.factor) if self.factor > 0.0 else None)
        if not before.all_positive or self.reached <= 0.0:
            now = None if self.ended is None else _finite(self.level)
            return replace(
                moved, before=_finite(before.level), reached=_finite(self.reached), now=now
            )
        moved = replace(moved, ratio=_finite(self.reached / before.level))
        if self.ended is None:
            return moved
        if self.level <= 0.0:
            return replace(moved, now=_finite(self.level))
        return replace(moved, now_ratio=_finite(self.level / before.level))

    def gradual(self) -> Moved | None:
        """Return how far it went over these rows, without a step; None if it is flat."""
        way = self.tends if self.direction == "flat" else self.direction
        if self.normal is None or way not in ("up", "down"):
            return None
        if self.goes_on:
            return self._fact("as_before", way)
        if self.steady and self.in_line and not self.since_then and self.ended is not None:
            return None
        usual = self.first
        if math.isnan(usual) or (self.level > usual) != (way == "up"):
            usual = self.normal.level  # it has turned within the first half of the rows
        moved = replace(self._fact("gradual", way), rows=self.rows)
        if self.normal.all_positive and usual / 2.0 < self.level < usual * 2.0:
            return replace(moved, ratio=self.level / usual)
        return replace(moved, before=_finite(usual), reached=_finite(self.level))

    def flat(self) -> Moved:
        """Return that it did not move."""
        return self._fact("flat", "flat")

    def _fact(self, told: Telling, way: Direction) -> Moved:
        return Moved(self.metric, way, told, self.key)


def in_order(movements: Iterable[Movement]) -> list[Movement]:
    """Return movements by their steps, the learning rate first of equals, and then what is flat."""
    movements = list(movements)
    moved = [movement for movement in movements if movement.direction != "flat"]
    moved.sort(key=lambda movement: (movement.step, movement.metric != RATE))
    return [*moved, *(movement for movement in movements if movement.direction == "flat")]


def told(movements: Iterable[Movement], began: float = -math.inf) -> tuple[Moved, ...]:
    """Return what to tell of movements: what moved, in order, and what did not.

    What moved before the step `began`, when an incident or its cause began, did not follow it. If
    nothing moved, nothing is told.

    >>> moved = [Movement("grad_norm", "up", 612, 4.0), Movement("kl", "up", 618, 8.0)]
    >>> [(it.metric, it.told, it.step, it.ratio, it.is_earlier) for it in told(moved, began=615)]
    [('grad_norm', 'dated', 612, 4.0, True), ('kl', 'dated', 618, 8.0, False)]
    """
    movements = list(movements)
    moved = [m for m in movements if m.direction != "flat" and m.is_worth_saying]
    dated = [m.dated(is_earlier=m.step < began) for m in moved if not m.in_message]
    in_alert = [m.dated(is_earlier=False) for m in moved if m.in_message]
    others = [m for m in movements if m.metric in _TELLING_IF_FLAT and not m.in_message]
    slow, flat = [], []
    for movement in others:
        if movement in moved:
            continue
        gradual = movement.gradual()
        if gradual is None and movement.direction == "flat" and not movement.drifted:
            flat.append(movement.flat())
        # KL grows in every run, so it is no news if it only goes on.
        elif gradual is not None and not (movement.metric == _KL and movement.steady):
            slow.append(gradual)
    said = [*dated, *in_alert, *slow]
    return (*said, *flat) if said else ()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
