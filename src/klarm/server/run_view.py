"""A view of one run in the index, for the duration of one request."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from functools import cached_property
from os import fsdecode
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from klarm.journal import IncidentRecord, Started, read_commands
from klarm.metrics import METRICS
from klarm.server.blocks import Axis, RunBlocks
from klarm.server.packing import unpack_floats, unpack_steps
from klarm.server.problems import not_found
from klarm.server.rows import STEPS, TIMES
from klarm.server.run_index import RunIndex
from klarm.server.summary import RunSummary
from klarm.types import Command, Event


class StoredRecord(NamedTuple):
    """A line of the journal other than a step."""

    number: int
    step: int
    time: float
    counts: bool  # False if it was rolled back
    line: bytes


class RunView:
    """Everything that the index and the run's folder have about one run."""

    def __init__(
        self, database: sqlite3.Connection, number: int, folder: Path, summary: RunSummary
    ) -> None:
        self.database, self.number, self.folder, self.summary = database, number, folder, summary

    @classmethod
    def find(cls, root: Path, database: sqlite3.Connection, id_: str) -> RunView:
        """Return the run with an id, or raise ApiError. Its folder is taken from the index."""
        found = database.execute(
            "SELECT run, folder, summary FROM runs WHERE id = ? AND summary IS NOT NULL", (id_,)
        ).fetchone()
        if found is None:
            raise not_found(f"there is no run {id_}", "run")
        number, folder, summary = found
        decoded = msgspec.json.decode(summary, type=RunSummary)
        return cls(database, number, root / fsdecode(folder), decoded)

    @property
    def id(self) -> str:
        """The id of the run in URLs."""
        return self.summary.id

    @cached_property
    def index(self) -> RunIndex:
        """The stored fold of the journal."""
        known = RunIndex(self.number, self.folder)
        known.load_fold(self.database)
        return known

    @cached_property
    def commands(self) -> list[Command]:
        """The commands for the run, applied or not."""
        try:
            return [command for _, command in read_commands(self.folder)]
        except OSError:
            return []

    @property
    def waiting_commands(self) -> list[Command]:
        """The commands that the run has not applied yet."""
        return [command for command in self.commands if command.key not in self.index.fold.commands]

    @cached_property
    def incidents(self) -> dict[str, IncidentRecord]:
        """The incidents by id, in the order in which they opened."""
        at_rest = self.summary.activity != "training"
        return {known.id: known for known in self.index.incidents(self.commands, at_rest=at_rest)}

    def incident(self, id_: str) -> IncidentRecord:
        """Return one incident, or raise ApiError."""
        found = self.incidents.get(id_)
        if found is None:
            raise not_found(f"run {self.summary.name} has no incident {id_}", "incident")
        return found

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the run's latest process."""
        latest = list(self.records("run"))[-1:]
        if not latest:
            return {}
        config: dict[str, Any] = msgspec.json.decode(latest[0].line, type=Started).config
        return config

    def records(self, kind: str, more: str = "", *values: object) -> Iterator[StoredRecord]:
        """Yield lines of one kind in the order of the journal; `more` continues the SQL."""
        for number, step, time, counts, line in self.database.execute(
            "SELECT number, step, time, counts, line FROM records WHERE run = ? AND kind = ? "
            + (more or "ORDER BY number"),
            (self.number, kind, *values),
        ):
            yield StoredRecord(number, step, time, bool(counts), line)

    def events(self, incident: str) -> list[tuple[StoredRecord, Event]]:
        """Return the events of an incident in the order of the journal."""
        return [
            (stored, msgspec.json.decode(stored.line, type=Event))
            for stored in self.records("event", "AND incident = ? ORDER BY number", incident)
        ]

    def blocks(self, axis: Axis = "step") -> RunBlocks:
        """Return the rows of the run along an axis."""
        return RunBlocks(self.database, self.number, axis)

    def metric_names(self) -> dict[str, int]:
        """Return the metrics with their numbers in the index; those klarm knows come first."""
        order = {name: place for place, name in enumerate(METRICS)}
        found = self.database.execute(
            "SELECT name, metric FROM metrics WHERE run = ? ORDER BY name", (self.number,)
        ).fetchall()
        return dict(sorted(found, key=lambda pair: order.get(pair[0], len(order))))

    def time_of(self, step: int) -> float | None:
        """Return when a step was logged, or else the step before it; None if there is none."""
        found = self.database.execute(
            "SELECT first_row FROM blocks WHERE run = ? AND low_step <= ? "
            "ORDER BY first_row DESC LIMIT 1",
            (self.number, step),
        ).fetchone()
        if found is None:
            return None
        packs = dict(
            self.database.execute(
                "SELECT metric, data FROM packs WHERE run = ? AND metric IN (?, ?) "
                "AND first_row = ?",
                (self.number, STEPS, TIMES, found[0]),
            ).fetchall()
        )
        at_or_before = np.flatnonzero(unpack_steps(packs[STEPS]) <= step)
        return float(unpack_floats(packs[TIMES])[at_or_before[-1]])
