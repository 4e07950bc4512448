"""Identity: ids by which the journal, messages and commands refer to the same incident."""

from __future__ import annotations

import base64
import os
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable

from klarm.types import Event

_LENGTH = 7
# Returns the id of an incident, given its signal, the step of its first alert and the step at which
# it opened.
NewId = Callable[[str, int, int], str]


def new_id(signal: str = "", started: int = 0, opened: int = 0) -> str:  # noqa: ARG001
    """Return a practically unique id: `k` and 7 random characters of base32."""
    return _to_id(os.urandom(5))


def unused_ids(taken: Container[str], new: NewId = new_id) -> NewId:
    """Return a function that makes ids which are not in `taken` and which it never repeats.

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


def counting_ids() -> NewId:
    """Return a function that makes consecutive ids, so that every replay of a run has the same.

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
    """Return a function that gives each incident of a replay the id that it has in the journal.

    Commands refer to incidents by these ids. Incidents that are not in the journal get consecutive
    ids.
    """
    known: defaultdict[tuple[str, int, int], deque[str]] = defaultdict(deque)
    for event in events:
        if event.event == "opened":  # after a rollback, one may open at the same step again
            known[event.signal, event.started, event.step].append(event.id)
    fallback = counting_ids()

    def new(signal: str, started: int, opened: int) -> str:
        ids = known[signal, started, opened]
        return ids.popleft() if ids else fallback(signal, started, opened)

    return new


def _to_id(random: bytes) -> str:
    return "k" + base64.b32encode(random).decode().lower()[:_LENGTH]
