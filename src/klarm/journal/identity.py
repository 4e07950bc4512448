"""Identity: what makes an incident the same one wherever it is spoken of."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable

_LENGTH = 7
NewId = Callable[[], str]


def new_id() -> str:
    """Return an id that no incident has: `k` and 7 random characters of base32."""
    return _spelt(os.urandom(5))


def derived_id(began: float, number: int) -> str:
    """Return the id of an incident of format 1, which had a number only: the same every time.

    >>> derived_id(1763200000.1, 3)
    'k5tdsqrn'
    """
    return _spelt(hashlib.sha256(f"{began!r}/{number}".encode()).digest())


def counting_ids() -> NewId:
    """Return what gives ids in order, for a replay: the same for the same run.

    >>> new = counting_ids()
    >>> new(), new()
    ('k0000001', 'k0000002')
    """
    given = 0

    def new() -> str:
        nonlocal given
        given += 1
        return f"k{given:0{_LENGTH}d}"

    return new


def _spelt(random: bytes) -> str:
    return "k" + base64.b32encode(random).decode().lower()[:_LENGTH]
