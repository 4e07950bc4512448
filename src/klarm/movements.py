"""What moved over the last steps, in which direction, how far and when."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Literal, NamedTuple

from klarm.metrics import METRICS

# How many steps a diagnosis looks back.
LOOK_BACK = 100
# The first part of them is what was normal; fewer values say nothing.
_NORMAL_SHARE = 0.5
_FEWEST = 20
# A value has moved when the median of three is this many spreads and this share away from normal.
_SPREADS = 4.0
_SHARE = 0.25
_AT_ONCE = 3

Direction = Literal["up", "down", "flat", "broken"]


class Movement(NamedTuple):
    """How one metric moved."""

    metric: str
    direction: Direction
    step: int  # when it left what was normal; the last step if it did not
    factor: float  # what it is now over what was normal

    def __str__(self) -> str:
        if self.direction == "flat":
            return f"{self.metric} flat"
        if self.direction == "broken":
            return f"{self.metric} not finite at {self.step}"
        if math.isfinite(self.factor) and self.factor > 0.0:
            return f"{self.metric} x{self.factor:.2g} at {self.step}"
        return f"{self.metric} {self.direction} at {self.step}"


class RecentRows:
    """The last steps that were logged."""

    def __init__(self) -> None:
        self._rows: deque[tuple[int, Mapping[str, float]]] = deque(maxlen=LOOK_BACK)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Take in what was new at a step: several dicts may make up one."""
        rows = self._rows
        if rows and rows[-1][0] == step:
            rows[-1] = (step, {**rows[-1][1], **values})
        else:
            rows.append((step, values))

    def clear(self) -> None:
        """Forget them, as after a rollback."""
        self._rows.clear()

    def movements(self) -> list[Movement]:
        """Return how every known metric moved: those that did in their order, then the others."""
        found = []
        for metric in METRICS:
            series = [(step, values[metric]) for step, values in self._rows if metric in values]
            movement = _movement(metric, series)
            if movement is not None:
                found.append(movement)
        return sorted(found, key=lambda m: (m.direction == "flat", m.step))


def summary(movements: Iterable[Movement]) -> str:
    """Say in one line what moved in which order, and what did not.

    >>> summary([Movement("grad_norm", "up", 612, 4.0), Movement("kl", "up", 618, 8.0),
    ...          Movement("reward", "flat", 630, 1.0)])
    'grad_norm x4 at 612, then kl x8 at 618; reward flat'
    """
    movements = list(movements)
    moved = ", then ".join(str(m) for m in movements if m.direction != "flat")
    still = ", ".join(m.metric for m in movements if m.direction == "flat")
    parts = [moved] if moved else []
    return "; ".join([*parts, f"{still} flat"] if still else parts)


def _movement(metric: str, series: list[tuple[int, float]]) -> Movement | None:
    broken = [step for step, value in series if not math.isfinite(value)]
    if broken:
        return Movement(metric, "broken", broken[0], math.nan)
    if len(series) < _FEWEST:
        return None
    values = [value for _, value in series]
    split = int(len(values) * _NORMAL_SHARE)
    normal = median(values[:split])
    spread = 1.4826 * median(abs(value - normal) for value in values[:split])
    least = max(_SPREADS * spread, _SHARE * abs(normal), 1e-12)
    now = median(values[-_AT_ONCE:])
    factor = now / normal if normal else math.inf
    if abs(now - normal) <= least:
        return Movement(metric, "flat", series[-1][0], factor)
    direction: Direction = "up" if now > normal else "down"
    # It set out where it was last within a quarter of the way, and slow growth before is no part of
    # it. Of three values two were out by then: the change came with the second.
    near = max(least, abs(now - normal) / 4.0)
    at = series[-1][0]
    for i in range(len(values) - _AT_ONCE, split - 1, -1):
        if abs(median(values[i : i + _AT_ONCE]) - normal) <= near:
            break
        at = series[i + 1][0]
    return Movement(metric, direction, at, factor)
