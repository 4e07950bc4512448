"""Escapes text for a service, and cuts it to the length that the service accepts."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

_CUT = "…"
_MAX_LINE = 1000  # characters of text from elsewhere: the name of a run, a path, an alert


def one_line(text: str, limit: int = _MAX_LINE) -> str:
    """Return a text without line breaks and control characters, cut at a limit.

    >>> one_line("a run\\r\\nBcc: everybody")
    'a run Bcc: everybody'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else line[: limit - 1] + _CUT


def fit(text: str, limit: int, escape: Callable[[str], str] = str) -> str:
    """Return a text escaped character by character, and cut if the result would be too long.

    Lengths are counted in UTF-16 units, the strictest way in which services count.

    >>> fit("a & b", 7, lambda c: "&amp;" if c == "&" else c), fit("abcdef", 4)
    ('a …', 'abc…')
    """
    pieces: list[str] = []
    length = room = 0  # the length so far, and how many pieces leave room for the ellipsis
    for character in text:
        piece = escape(character)
        length += width(piece)
        if length > limit:
            return "".join(pieces[:room]) + _CUT
        pieces.append(piece)
        if length <= limit - len(_CUT):
            room = len(pieces)
    return "".join(pieces)


def is_link(text: str) -> bool:
    """Return whether a text is exactly one HTTP URL.

    >>> is_link("https://example.org/runs/7b"), is_link("javascript:alert(1)")
    (True, False)
    """
    try:
        address = urlsplit(text)
        host = address.hostname and address.port != 0
    except ValueError:
        return False
    plain = text.isascii() and text.isprintable() and not set(' <>|"\\^`{}') & set(text)
    return address.scheme in ("http", "https") and bool(host) and plain


def width(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)
