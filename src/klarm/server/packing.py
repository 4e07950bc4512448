"""Columns of numbers as stored in the index: packed, little-endian, with a mark for no value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from klarm.metrics import to_number

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

# A NaN with bits that no calculation produces: it marks that a row has no value of the metric.
_NO_VALUE_BITS = np.uint64(0x7FF8_0000_006B_6C61)
NO_VALUE = float(np.array([_NO_VALUE_BITS], dtype=np.uint64).view(np.float64)[0])
# Steps that do not fit into 64 bits are clipped.
MAX_STEP = 2**63 - 1


class Columns(NamedTuple):
    """Rows in memory, as they are packed: one line of the table per metric."""

    names: list[str]
    steps: Steps
    table: Floats

    def of(self, name: str) -> Floats | None:
        """Return the values of a metric, one per row; None if no row has it."""
        return self.table[self.names.index(name)] if name in self.names else None


def pack_steps(steps: Sequence[int]) -> bytes:
    """Return steps as bytes."""
    try:
        return np.array(steps, dtype="<i8").tobytes()
    except OverflowError:
        clipped = [max(-MAX_STEP, min(step, MAX_STEP)) for step in steps]
        return np.array(clipped, dtype="<i8").tobytes()


def unpack_steps(data: bytes) -> Steps:
    """Return what `pack_steps` packed."""
    return np.frombuffer(data, dtype="<i8")


def pack_floats(values: Floats) -> bytes:
    """Return numbers as bytes, preserving the bits of each."""
    return values.astype("<f8", copy=False).tobytes()


def unpack_floats(data: bytes) -> Floats:
    """Return what `pack_floats` packed."""
    return np.frombuffer(data, dtype="<f8")


def columns(rows: Sequence[Mapping[str, object]]) -> tuple[list[str], Floats]:
    """Return the names of the metrics in some rows, and an array with one line per metric.

    Values that are missing or not numbers are NO_VALUE.

    >>> names, table = columns([{"kl": 0.5, "loss": "NaN"}, {"loss": 2.0}])
    >>> names, table[1].tolist(), has_value(table).tolist()
    (['kl', 'loss'], [nan, 2.0], [[True, False], [True, True]])
    """
    first, count = tuple(rows[0]), len(rows)
    if list(map(tuple, rows)).count(first) == count:  # the same metrics in the same order, as usual
        values = list(chain.from_iterable([row.values() for row in rows]))
        if list(map(type, values)).count(float) == len(values):
            table = np.array(values, dtype=np.float64).reshape(count, len(first))
            order = sorted(range(len(first)), key=first.__getitem__)
            return sorted(first), table.T[order]
    names = sorted(set[str]().union(*rows))
    lines = [[_number(row.get(name)) for row in rows] for name in names]
    return names, np.array(lines, dtype=np.float64).reshape(len(names), len(rows))


def _number(value: object) -> float:
    number = to_number(value)
    return NO_VALUE if number is None else number


def extremes_of(table: Floats, steps: Steps, times: Floats) -> Iterator[tuple[object, ...] | None]:
    """Yield counts, sum and extremes of each metric; None if it has no values."""
    if not table.size:
        return
    finite = np.isfinite(table)
    counts = finite.sum(axis=1).tolist()
    present = has_value(table).sum(axis=1).tolist()
    lows = np.where(finite, table, np.inf).argmin(axis=1).tolist()
    highs = np.where(finite, table, -np.inf).argmax(axis=1).tolist()
    with np.errstate(over="ignore", invalid="ignore"):
        totals = np.where(finite, table, 0.0).sum(axis=1).tolist()
    for metric, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if not present[metric]:
            yield None
        elif not counts[metric]:
            yield (0, present[metric], *[None] * 7)
        else:
            yield (
                *(counts[metric], present[metric] - counts[metric], totals[metric]),
                *(float(table[metric, low]), int(steps[low]), float(times[low])),
                *(float(table[metric, high]), int(steps[high]), float(times[high])),
            )


def has_value(values: Floats) -> NDArray[np.bool_]:
    """Return for each row whether the metric was logged."""
    present: NDArray[np.bool_] = values.view(np.uint64) != _NO_VALUE_BITS
    return present
