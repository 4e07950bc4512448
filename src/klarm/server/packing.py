"""Columns of numbers as they lie in the index: packed, little-endian, with marks for no value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from klarm.metrics import to_number

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

# A NaN that no calculation makes: the row has no value of the metric. A logged NaN differs in bits.
_NO_VALUE_BITS = np.uint64(0x7FF8_0000_006B_6C61)
NO_VALUE = float(np.array([_NO_VALUE_BITS], dtype=np.uint64).view(np.float64)[0])
# Steps beyond what 64 bits hold are kept at the limit.
LARGEST_STEP = 2**63 - 1


def pack_steps(steps: Sequence[int]) -> bytes:
    """Return steps as bytes."""
    try:
        return np.array(steps, dtype="<i8").tobytes()
    except OverflowError:
        held = [max(-LARGEST_STEP, min(step, LARGEST_STEP)) for step in steps]
        return np.array(held, dtype="<i8").tobytes()


def unpack_steps(data: bytes) -> Steps:
    """Return what `pack_steps` packed."""
    return np.frombuffer(data, dtype="<i8")


def pack_floats(values: Floats) -> bytes:
    """Return numbers as bytes, each with its very bits."""
    return values.astype("<f8", copy=False).tobytes()


def unpack_floats(data: bytes) -> Floats:
    """Return what `pack_floats` packed."""
    return np.frombuffer(data, dtype="<f8")


def column(values: Sequence[object]) -> Floats:
    """Return what was logged of one metric as numbers; None and what is no number is NO_VALUE.

    >>> column([0.5, "NaN", None]).tolist()[:2], has_value(column([0.5, "NaN", None])).tolist()
    ([0.5, nan], [True, True, False])
    """
    if set(map(type, values)) == {float}:
        return np.array(values, dtype=np.float64)
    numbers = (to_number(value) for value in values)
    return np.array([NO_VALUE if number is None else number for number in numbers])


def has_value(values: Floats) -> NDArray[np.bool_]:
    """Tell for each row whether the metric was logged there."""
    present: NDArray[np.bool_] = values.view(np.uint64) != _NO_VALUE_BITS
    return present
