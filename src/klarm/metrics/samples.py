"""Reduces the rewards of single samples to the few numbers that detectors read."""

from __future__ import annotations

from collections.abc import Sized
from contextlib import suppress
from math import ceil, dist, sqrt
from numbers import Real
from typing import Any

from klarm.metrics.numbers import to_number
from klarm.stats.dip import dip, dip_p_value

# The names that `sample_statistics` may return.
STATISTICS = ("mean", "std", "dip_p")

# Limits that keep a step cheap: how many samples are read, sorted and given to the dip test. If
# there are more, evenly spaced ones are used.
_MAX_READ = 4_096
_MAX_SORTED = 512
_MAX_TESTED = 128
# Fewer distinct rewards are grades, such as right and wrong, which always form groups.
_MIN_DISTINCT = 10
# Products of larger values overflow in the dip test.
_MAX_SIZE = 1e300


def sample_statistics(samples: object) -> dict[str, float] | None:
    """Return mean, standard deviation and dip test p-value; None if this is not a list of numbers.

    Accepts lists, tuples, and arrays or tensors with one dimension. A None is a sample without a
    reward and is left out. With NaN or infinity, mean and deviation are not finite either. The dip
    test uses finite values only, and needs ten distinct ones.

    >>> sample_statistics([1, 2.0, None, 3])
    {'mean': 2.0, 'std': 1.0}
    >>> sample_statistics("garbage") is sample_statistics([[0.5]]) is None
    True
    """
    try:
        values = _numbers(samples)
    except Exception:  # noqa: BLE001  # a foreign object may raise anything
        return None
    if values is None:
        return None
    found = {}
    if values:
        mean = found["mean"] = sum(values) / len(values)
        if len(values) > 1:
            found["std"] = dist(values, [mean] * len(values)) / sqrt(len(values) - 1)
        p = _dip_p(values)
        if p is not None:
            found["dip_p"] = p
    return found


def _numbers(samples: object) -> list[float] | None:
    """Return the samples as floats; None if one of them is neither a number nor None."""
    read: object
    if isinstance(samples, list | tuple):
        read = samples[:: _stride(samples)]
    elif getattr(samples, "ndim", None) == 1:
        array: Any = samples
        read = array[:: _stride(array)].tolist()
    else:
        return None
    if not isinstance(read, list | tuple):
        return None
    if all(issubclass(kind, Real) for kind in set(map(type, read))):
        with suppress(OverflowError):  # an integer larger than any float
            return list(map(float, read))
    values = []
    for raw in read:
        if raw is not None:
            number = float(raw) if isinstance(raw, bool) else to_number(raw)
            if number is None:
                return None
            values.append(number)
    return values


def _stride(samples: Sized) -> int:
    return max(1, ceil(len(samples) / _MAX_READ))


def _dip_p(values: list[float]) -> float | None:
    finite = [value for value in values if abs(value) < _MAX_SIZE]  # excludes NaN
    tested = _spaced(sorted(_spaced(finite, _MAX_SORTED)), _MAX_TESTED)
    if len(set(tested)) < _MIN_DISTINCT:
        return None
    return dip_p_value(dip(tested), len(tested))


def _spaced(values: list[float], limit: int) -> list[float]:
    count = len(values)
    return values if count <= limit else [values[i * count // limit] for i in range(limit)]
