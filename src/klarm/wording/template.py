"""Fills the sentences that detectors declare with the facts of an alert."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from klarm.wording.numbers import number

# A field in braces, with how to write it; a part in brackets.
_FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
_PART = re.compile(r"\[([^\[\]]*)\]")
_CLOSER_DIGITS = 6

Facts = Mapping[str, float | str]
_Piece = tuple[str, str | None, str | None]  # a text, and the field that follows it


class MissingFactError(LookupError):
    """A sentence needs a fact that the alert does not have."""


def fill(sentence: str, facts: Facts) -> str:
    """Return a sentence with its facts. A part in brackets is left out if it lacks one of them.

    A number has three digits, or as many as its field says. `:g` and `:d` write it as Python does,
    `:%` in percent, and `:!limit` with more digits if it would look like the fact `limit`.

    >>> fill("KL {kl} is high[ ({severity} above {limit:g})].", {"kl": 0.4321, "limit": 3.0})
    'KL 0.432 is high.'
    >>> fill("KL {kl:!limit}, {share:%} off", {"kl": 1.0001, "limit": 1.0, "share": 0.1})
    'KL 1.0001, 10% off'
    """
    written = []
    for is_optional, pieces in _parsed(sentence):
        try:
            part = [
                text if name is None else text + _written(facts, name, how)
                for text, name, how in pieces
            ]
        except MissingFactError:
            if not is_optional:
                raise
        else:
            written += part
    return "".join(written)


@cache
def _parsed(sentence: str) -> list[tuple[bool, list[_Piece]]]:
    """Return the parts of a sentence: whether each is optional, and its texts and fields."""
    parts = []
    for place, part in enumerate(_PART.split(sentence)):
        texts = _FIELD.split(part)  # text, name, how, text, name, how, ..., text
        pieces: list[_Piece] = list(zip(texts[::3], texts[1::3], texts[2::3], strict=False))
        pieces.append((texts[-1], None, None))
        parts.append((place % 2 == 1, pieces))
    return parts


def _written(facts: Facts, name: str, how: str | None) -> str:
    try:
        value = facts[name]
    except KeyError:
        raise MissingFactError(name) from None
    if isinstance(value, str):
        return value
    if not how:
        return number(value)
    if how == "%":
        return f"{value:.0%}"
    if how.startswith("!"):
        looks_alike = number(abs(value)) == number(facts.get(how[1:], ""))
        return number(value, _CLOSER_DIGITS if looks_alike else 3)
    if how.isdecimal():
        return number(value, int(how))
    return f"{int(value):d}" if how == "d" else format(value, how)
