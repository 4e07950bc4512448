"""Formats numbers for people: counts, values and proportions."""

from __future__ import annotations

import math

_FRACTIONS = {2: "half", 3: "a third of", 4: "a quarter of"}
# A fraction in words may be off by this share of it.
_MAX_ROUNDING = 0.1
_SPELLING = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def number(value: float | str, digits: int = 3) -> str:
    """Return a value with this many significant digits, without an exponent if that is short.

    >>> number(0.5449), number(999.6), number(1234.5), number(6.02e23), number(float("nan"))
    ('0.545', '1000', '1234', '6.02e23', 'NaN')
    """
    if isinstance(value, str) or not math.isfinite(value):
        return _SPELLING.get(str(value), str(value))
    text = f"{value:.{digits}g}"
    if "e" not in text:
        return text
    if 1.0 <= abs(value) < 1e6:
        return f"{value:.0f}"
    mantissa, exponent = text.split("e")
    return f"{mantissa}e{int(exponent)}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural where needed.

    >>> counted(1, "step"), counted(12, "critical alert")
    ('1 step', '12 critical alerts')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def factor(value: float) -> str:
    """Return a factor of change in short.

    >>> factor(100.4), factor(5.23), factor(0.552), factor(12_345.0), factor(3e9)
    ('×100', '×5.2', '×0.55', '×12000', '×3e9')
    """
    rounded = float(f"{value:.2g}")
    return f"×{number(rounded, 2)}"


def times(value: float) -> str:
    """Return a ratio above 1 in words; empty if it rounds to 1.

    >>> times(74.2), times(1.52), times(1.01)
    ('74 times', '1.5 times', '')
    """
    rounded = float(f"{value:.2g}") if value < 10.0 else round(value)
    return "" if rounded <= 1.0 else f"{number(rounded)} times"


def share(divisor: float) -> str:
    """Return the fraction 1/divisor in words, or in percent; empty if it rounds to 1.

    >>> share(20.0), share(2.1), share(8.0), share(1.3), share(1000.0), share(1.5)
    ('a 20th of', 'half', 'an 8th of', '', 'less than a 100th of', '67% of')
    """
    parts = round(divisor)
    if parts < 2:
        return ""
    if abs(divisor - parts) > _MAX_ROUNDING * parts:
        return f"{100.0 / divisor:.0f}% of"
    if parts > 100:
        return "less than a 100th of"
    if parts in _FRACTIONS:
        return _FRACTIONS[parts]
    ending = "th" if 10 <= parts % 100 <= 20 else _ENDINGS.get(parts % 10, "th")
    article = "an" if parts in (8, 11, 18) or 80 <= parts < 90 else "a"
    return f"{article} {parts}{ending} of"
