"""Held values: some trainers repeat the last value of a metric until it is measured again.

Ten rows with the same held value are one observation. They are neither ten confirmations nor a
metric that is stuck. The same applies to rows of several updates made from one batch of samples.
"""

from __future__ import annotations

from collections.abc import Mapping

from klarm.metrics import METRICS

# The first rows decide which metrics are held.
_LEARNING_ROWS = 60
# A metric is held if this share of its values repeats the previous one, and it changes at all.
_MIN_ROWS, _MIN_REPEATED_SHARE, _MIN_CHANGES = 12, 0.6, 3
_OFTEN_CONSTANT = frozenset(name for name, metric in METRICS.items() if metric.often_constant)
# Each batch of samples has its reward: if that is held, several rows belong to one batch.
_OF_THE_BATCH = "reward"


class HeldValues:
    """Removes from each row the held values that only repeat the previous row.

    >>> held = HeldValues()
    >>> rows = [held.news({"kl": 1.0 + row // 5}) for row in range(30)]
    >>> rows[25:]
    [{'kl': 6.0}, {}, {}, {}, {}]
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Reset to the initial state."""
        self._rows = 0
        self._last: dict[str, float] = {}
        self._counts: dict[str, tuple[int, int]] = {}  # rows and repeats of each metric
        self._held: set[str] = set()
        # Whether the last row belongs to the same batch of samples as the one before.
        self.same_batch = False

    def news(self, values: Mapping[str, float]) -> Mapping[str, float]:
        """Return a row without the held values that repeat."""
        self._rows += 1
        if self._rows <= _LEARNING_ROWS:
            self._learn(values)
        elif not self._held:
            return values
        repeated = [n for n in self._held if n in values and self._repeats(n, values[n])]
        for name in self._held:
            if name in values:
                self._last[name] = values[name]
        self.same_batch = _OF_THE_BATCH in repeated
        if not repeated:
            return values
        return {name: value for name, value in values.items() if name not in repeated}

    def _repeats(self, name: str, value: float) -> bool:
        last = self._last.get(name)
        return value == last or (value != value and last != last)  # noqa: PLR0124  # NaN

    def _learn(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if name in _OFTEN_CONSTANT or value == 0.0 or value - value != 0.0:
                continue
            rows, repeats = self._counts.get(name, (0, 0))
            rows, repeats = rows + 1, repeats + (value == self._last.get(name))
            self._counts[name] = rows, repeats
            if name not in self._held:  # for held metrics, `news` keeps the last value
                self._last[name] = value
                if rows >= _MIN_ROWS and _is_held(rows, repeats):
                    self._held.add(name)


def _is_held(rows: int, repeats: int) -> bool:
    return repeats >= _MIN_REPEATED_SHARE * rows and rows - repeats > _MIN_CHANGES
