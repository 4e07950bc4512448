"""How a metric moved, and the line of a message that says which ones did."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from klarm.incidents.numbers import factor
from klarm.text import number

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

Direction = Literal["up", "down", "flat", "broken"]


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
    def name(self) -> str:
        """The metric as messages name it."""
        return f"{self.metric} ({self.key})" if self.key else self.metric

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

    @property
    def gradual(self) -> str:
        """How far it went over these rows, without a step; empty if it is flat."""
        way = self.tends if self.direction == "flat" else self.direction
        if self.normal is None or way not in ("up", "down"):
            return ""
        since = f"over the last {self.rows} rows"
        if self.goes_on:
            going = "rising" if way == "up" else "falling"
            return f"{self.name} keeps {going} as before"
        if self.steady and self.in_line and not self.since_then and self.ended is not None:
            return ""
        usual = self.first
        if math.isnan(usual) or (self.level > usual) != (way == "up"):
            usual = self.normal.level  # it has turned within the first half of the rows
        if self.normal.all_positive and usual / 2.0 < self.level < usual * 2.0:
            return f"{self.name} {way} {100 * abs(self.level / usual - 1.0):.0f}% {since}"
        return f"{self.name} {way} from {number(usual, 2)} to {number(self.level, 2)} {since}"

    @property
    def verb(self) -> str:
        """What it has done, where the message itself says how far it went."""
        return {"up": "risen", "down": "fallen"}.get(self.direction, "not been finite")

    def __str__(self) -> str:
        """How far it went, without its step."""
        if self.direction == "flat":
            return self.gradual or f"{self.name} flat"
        if self.direction == "broken":
            return f"{self.name} not finite"
        before = self.before
        if not math.isnan(self.shown_before):
            positive = self.shown_before > 0.0 and (before is None or before.all_positive)
            before = Before(self.shown_before, 0.0, positive)
        is_ratio = before is None or (before.all_positive and self.reached > 0.0)
        if before is None:
            far = factor(self.factor) if 0.0 < self.factor < math.inf else self.direction
        elif is_ratio:
            far = factor(self.reached / before.level)
        else:
            far = f"{number(before.level, 2)} → {number(self.reached, 2)}"
        text = f"{self.name} {far}"
        if self.ended is None:
            return text
        if before is None:
            return f"{text} (now {self.ended})"
        is_ratio = is_ratio and self.level > 0.0
        now = factor(self.level / before.level) if is_ratio else number(self.level, 2)
        return f"{text} (now {now})"


def in_order(movements: Iterable[Movement]) -> list[Movement]:
    """Return movements by their steps, the learning rate first of equals, and then what is flat."""
    movements = list(movements)
    moved = [movement for movement in movements if movement.direction != "flat"]
    moved.sort(key=lambda movement: (movement.step, movement.metric != RATE))
    return [*moved, *(movement for movement in movements if movement.direction == "flat")]


def summary(movements: Iterable[Movement], began: float = -math.inf) -> str:
    """Return one line that says what moved in which order and what did not, or nothing if none did.

    What moved before the step `began`, when an incident or its cause began, did not follow it, and
    is named apart.

    >>> moved = [Movement("grad_norm", "up", 612, 4.0), Movement("kl", "up", 618, 8.0)]
    >>> summary([*moved, Movement("reward", "flat", 630, 1.0)])
    'grad_norm ×4 since step 612, then kl ×8 since step 618; no clear change: reward'
    >>> summary([*moved, Movement("loss", "up", 618, 2.0), Movement("length", "up", 618, 3.0)])
    'grad_norm ×4 since step 612, then kl ×8, loss ×2 and length ×3 since step 618'
    >>> summary(moved, began=615)
    'first grad_norm ×4 since step 612, then kl ×8 since step 618'
    >>> summary(moved[:1], began=615)
    'grad_norm ×4 since step 612, before the incident'
    >>> rising = Movement("reward", "up", 630, 1.1, steady=True, normal=Before(0.5, 0.01, True))
    >>> summary([rising, Movement("entropy", "flat", 630, 1.0)])
    'nothing new (reward keeps rising as before; no clear change: entropy)'
    """
    movements = list(movements)
    moved = [m for m in movements if m.direction != "flat" and m.is_worth_saying]
    dated = [f"{m.name} has {m.verb} since step {m.step}" for m in moved if m.in_message]
    earlier = _listed(m for m in moved if m.step < began and not m.in_message)
    later = _listed(m for m in moved if m.step >= began and not m.in_message)
    not_said = [m for m in movements if m not in moved and not m.in_message]
    others = [m for m in not_said if m.metric in _TELLING_IF_FLAT]
    # KL grows in every run, so it is no news if it only goes on.
    slow = [m for m in others if m.gradual and not (m.metric == _KL and m.steady)]
    unmoved = (m for m in others if m.direction == "flat" and not m.gradual and not m.drifted)
    flat = ", ".join(m.name for m in unmoved)
    if earlier:
        said = f"first {earlier}, then {later}" if later else f"{earlier}, before the incident"
    else:
        said = later
    parts = [part for part in (said, *dated, *(m.gradual for m in slow)) if part]
    if not parts:
        return ""
    line = "; ".join([*parts, f"no clear change: {flat}"] if flat else parts)
    nothing_new = not said and not dated and all(m.goes_on for m in slow)
    return f"nothing new ({line})" if nothing_new else line


def mentioned(movements: Iterable[Movement]) -> list[str]:
    """Return the metrics that `summary` may name."""
    return [m.metric for m in movements if m.direction != "flat" or m.metric in _TELLING_IF_FLAT]


def _listed(movements: Iterable[Movement]) -> str:
    """Return movements in their order, those of one step together."""
    by_step = groupby(movements, key=lambda movement: movement.step)
    return ", then ".join(f"{_enumerated(group)} since step {step}" for step, group in by_step)


def _enumerated(movements: Iterable[Movement]) -> str:
    *others, last = map(str, movements)
    return f"{', '.join(others)} and {last}" if others else last
