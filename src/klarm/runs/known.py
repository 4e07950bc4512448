"""What a journal says besides its rows: everything that a view of the run is made of."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import msgspec

from klarm.journal import Checkpoint, Damage, SavedFold, Started, limits_between
from klarm.runs.curve import SavedCurve
from klarm.types import Alert, Blip, Command, Event

_MAX_NAMED = 20  # damaged lines that are described
_MAX_INT = 2**63 - 1


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a line of the journal is, and when that was."""

    begin: int
    end: int
    step: int
    time: float


class Told(msgspec.Struct, frozen=True, array_like=True):
    """An event of the journal."""

    place: Place
    event: Event


class Given(msgspec.Struct, frozen=True, array_like=True):
    """A command that the run has applied."""

    place: Place
    command: Command


class Passed(msgspec.Struct, frozen=True, array_like=True):
    """A blip of the journal."""

    place: Place
    blip: Blip


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint of the journal."""

    place: Place
    checkpoint: Checkpoint


class Process(msgspec.Struct, frozen=True, array_like=True):
    """A process that started or resumed the run, after a step."""

    place: Place
    started: Started


class GoneBack(msgspec.Struct, frozen=True, array_like=True):
    """Training went back to the step of the place; `last` was the last step, if that undid any."""

    place: Place
    last: int | None


class Damages(msgspec.Struct):
    """The ignored lines of a journal: how many, and a description of the first ones."""

    count: int = 0
    first: list[tuple[int, Damage]] = []

    def add(self, number: int, why: Damage) -> None:
        """Add one line."""
        self.count += 1
        if len(self.first) < _MAX_NAMED:
            self.first.append((number, why))

    @property
    def named(self) -> list[str]:
        """The first of them in words."""
        return [
            f"line {number} of the journal is "
            f"{'not written by klarm' if why == 'not by klarm' else why} and ignored"
            for number, why in self.first
        ]


class Alerts:
    """Where the alerts of a run are: there may be one in every row, so they are not kept."""

    def __init__(self, saved: Sequence[bytes] = (), detectors: Sequence[str] = ()) -> None:
        self.detectors = list(detectors)
        self.begins, self.steps, self.kinds = array("q"), array("q"), array("h")
        self.times = array("d")
        for column, data in zip(self._columns, saved, strict=False):
            column.frombytes(data)

    @property
    def _columns(self) -> Sequence[array[int] | array[float]]:
        return self.begins, self.steps, self.kinds, self.times

    def __len__(self) -> int:
        return len(self.begins)

    def add(self, alert: Alert, begin: int, time: float) -> None:
        """Add the alert whose line begins at an offset."""
        if alert.detector not in self.detectors:
            self.detectors.append(alert.detector)
        self.begins.append(begin)
        self.steps.append(max(-_MAX_INT, min(alert.step, _MAX_INT)))
        # The detector and the severity in one number.
        kind = 2 * self.detectors.index(alert.detector) + (alert.severity == "critical")
        self.kinds.append(kind)
        self.times.append(time)

    def saved(self) -> list[bytes]:
        """Return the places as bytes."""
        return [column.tobytes() for column in self._columns]


class Known(msgspec.Struct):
    """The state of a run at an offset of its journal, as another process continues it."""

    fold: SavedFold
    latest: dict[str, Any]
    curves: dict[str, SavedCurve]
    last_time: float
    last_seen: float
    highest: int | None  # the highest step so far, even if it was rolled back
    events: list[Told]
    commands: list[Given]
    blips: list[Passed]
    checkpoints: list[Kept]
    rollbacks: list[GoneBack]
    processes: list[Process]
    detectors: list[str]
    alerts: list[bytes]
    places: list[tuple[int, int]]
    damages: Damages
    # By which a journal that was replaced by another is recognized.
    size: int = 0
    fingerprint: bytes = b""


def limits_of(rollbacks: Sequence[GoneBack]) -> list[tuple[int, float]]:
    """Return offsets, and below which step lines count from there on, up to the next offset.

    >>> there = [GoneBack(Place(50, 60, 8, 0.0), 9), GoneBack(Place(90, 99, 5, 0.0), 12)]
    >>> limits_of(there)
    [(0, 5), (50, 5), (90, inf)]
    """
    limits = limits_between([gone_back.place.step for gone_back in rollbacks])
    begins = [0, *(gone_back.place.begin for gone_back in rollbacks)]
    return [(begin, limit.step) for begin, limit in zip(begins, limits, strict=True)]
