"""Identity: what makes an incident the same one wherever it is spoken of."""

from __future__ import annotations

import base64
import hashlib
import os
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable

from klarm.types import Event

_LENGTH = 7
# Gives an incident its id, by its signal, the step of its first alert and that of its opening.
NewId = Callable[[str, int, int], str]


def new_id(signal: str = "", started: int = 0, opened: int = 0) -> str:  # noqa: ARG001
    """Return an id that hardly any incident has: `k` and 7 random characters of base32."""
    return _spelt(os.urandom(5))


def unused_ids(taken: Container[str], new: NewId = new_id) -> NewId:
    """Return what gives ids that a run does not have: neither these nor one it has given.

    >>> made = iter(["kaaaaaaa", "kbbbbbbb", "kbbbbbbb", "kccccccc"])
    >>> new = unused_ids(["kaaaaaaa"], lambda *_: next(made))
    >>> new("kl", 10, 12), new("loss", 20, 20)
    ('kbbbbbbb', 'kccccccc')
    """
    given: set[str] = set()

    def unused(signal: str, started: int, opened: int) -> str:
        id_ = new(signal, started, opened)
        while id_ in given or id_ in taken:
            id_ = new(signal, started, opened)
        given.add(id_)
        return id_

    return unused


def derived_id(began: float, number: int) -> str:
    """Return the id of an incident of format 1, which had a number only: the same every time.

    >>> derived_id(1763200000.1, 3)
    'k5tdsqrn'
    """
    return _spelt(hashlib.sha256(f"{began!r}/{number}".encode()).digest())


def counting_ids() -> NewId:
    """Return what gives ids in order, for a replay: the same for the same run.

    >>> new = counting_ids()
    >>> new("kl", 10, 12), new("loss", 20, 20)
    ('k0000001', 'k0000002')
    """
    given = 0

    def new(signal: str, started: int, opened: int) -> str:  # noqa: ARG001
        nonlocal given
        given += 1
        return f"k{given:0{_LENGTH}d}"

    return new


def recorded_ids(events: Iterable[Event]) -> NewId:
    """Return what gives each incident of a replay the id that it has in the journal.

    Commands name incidents by it. One that the journal does not have gets a number.
    """
    known: defaultdict[tuple[str, int, int], deque[str]] = defaultdict(deque)
    for event in events:
        if event.event == "opened":  # what a rollback undid may come again at the same place
            known[event.signal, event.started, event.step].append(event.id)
    otherwise = counting_ids()

    def new(signal: str, started: int, opened: int) -> str:
        ids = known[signal, started, opened]
        return ids.popleft() if ids else otherwise(signal, started, opened)

    return new


def _spelt(random: bytes) -> str:
    return "k" + base64.b32encode(random).decode().lower()[:_LENGTH]
