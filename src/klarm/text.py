"""Makes text safe to store and to show, without control codes.

Names, paths and error texts come from trainers, files and services. Some characters are commands
to a terminal, and lone surrogates (as in a path that is not UTF-8) cannot be encoded. Such
characters are escaped, as in `\\x1b`, so that people see that they were there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_LINE = 4_096  # the maximal length of a path
_CUT = "…"
# Control characters except tab and newline, those that change the direction of writing, lone
# surrogates, and invisible characters.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff"
    "\U000e0000-\U000e007f]"
)
_UNSAFE_IN_LINE = re.compile(f"[\t\n]|{_UNSAFE.pattern}")
_MAX_VALUE = 80
_MAX_WRITTEN = 10**_MAX_VALUE


def clean(text: str) -> str:
    r"""Return a text of one or more lines in which whatever a terminal might obey is escaped.

    >>> clean("run \x1b[2J\n  is fine"), clean("reward ← σ")
    ('run \\x1b[2J\n  is fine', 'reward ← σ')
    """
    return text if text.isprintable() else _UNSAFE.sub(_escaped, text)


def as_sentence(clause: str) -> str:
    """Return a clause as a sentence of its own; nothing stays nothing.

    >>> as_sentence("no step is recorded yet")
    'No step is recorded yet.'
    """
    return f"{clause[:1].upper()}{clause[1:]}." if clause else ""


def spell_unsafe(text: str, spell: Callable[[str], str]) -> str:
    """Return a text with each unsafe character escaped by a function."""
    return text if text.isprintable() else _UNSAFE.sub(lambda found: spell(found[0]), text)


def clean_line(text: str, limit: int = MAX_LINE) -> str:
    r"""Return a clean text as one line that is not longer than the limit.

    >>> clean_line("/ckpt-\udcff\nklarm: all is well", 20)
    '/ckpt-\\udcff\\nklarm…'
    """
    text = text[: limit + 1]  # escaping never makes it shorter
    if not text.isprintable():
        text = _UNSAFE_IN_LINE.sub(_escaped, text)
    return text if len(text) <= limit else text[: limit - 1] + _CUT


def described(value: object) -> str:
    """Describe a foreign object in a few words, without calling its `repr`.

    >>> described("n/a"), described(-1), described(10**5000), described([1, 2])
    ("'n/a'", '-1', 'a very large number', 'a list')
    """
    if type(value) is str:
        return clean_line(repr(value[: _MAX_VALUE + 1]), _MAX_VALUE)
    if type(value) is int:
        is_short = -_MAX_WRITTEN < value < _MAX_WRITTEN
        return repr(value) if is_short else "a very large number"
    if type(value) in (float, bool, type(None)):
        return repr(value)
    return f"a {clean_line(type(value).__name__, _MAX_VALUE)}"


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
