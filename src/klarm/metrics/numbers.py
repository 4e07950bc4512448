"""Numbers as trainers log them: of Python, numpy and torch, and as text."""

from __future__ import annotations

import math
import sys
from collections.abc import Container

_PLAIN = (int, float, str)
_NOT_NUMBERS = (bool, bytes, bytearray)


def to_number(value: object) -> float | None:
    """Return what a trainer logged as a float; None if it is not a single number.

    Accepts numbers of Python, numpy and torch, tensors and arrays with one element, and numeric
    text, but no booleans, None, words, lists and longer arrays.

    >>> to_number("0.25"), to_number("inf"), to_number("n/a"), to_number(True)
    (0.25, inf, None, None)
    """
    if value is None:
        return None
    try:
        if isinstance(value, _NOT_NUMBERS):
            return None
        if not isinstance(value, _PLAIN) and hasattr(value, "item"):
            value = value.item()  # numpy and torch; raises an error for more than one element
            if isinstance(value, bool):
                return None
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            return math.inf if value > 0 else -math.inf
        return float(value)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001  # a foreign object may raise anything
        return None


def counts(name: str, value: float, seen: Container[str]) -> bool:
    """Return whether a further value of a step counts.

    The first value of a metric does; after that, only one that is not finite.
    """
    return name not in seen or value - value != 0.0
