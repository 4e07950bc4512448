"""Text that fits: escaped as a service wants it, and never longer than it takes."""

from __future__ import annotations

from collections.abc import Callable

_CUT = "…"


def fit(text: str, limit: int, escape: Callable[[str], str] = str) -> str:
    """Return a text escaped character by character and cut where the result would be too long.

    Lengths are counted as UTF-16 does, which is the strictest of what services do.

    >>> fit("a & b", 7, lambda c: "&amp;" if c == "&" else c), fit("abcdef", 4)
    ('a …', 'abc…')
    """
    pieces: list[str] = []
    length = room = 0  # what is there, and how many of the pieces leave room for the cut
    for character in text:
        piece = escape(character)
        length += width(piece)
        if length > limit:
            return "".join(pieces[:room]) + _CUT
        pieces.append(piece)
        if length <= limit - len(_CUT):
            room = len(pieces)
    return "".join(pieces)


def width(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)
