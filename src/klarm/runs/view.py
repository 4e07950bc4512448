"""A view of a run at one moment: its state, and what people and channels have said since."""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from klarm.delivery import Delivered, Outbox, Silence, deliveries
from klarm.detectors import CATALOGUE, known_signals
from klarm.incidents import subject_of
from klarm.journal import (
    Activity,
    Fold,
    IncidentRecord,
    RunHealth,
    acknowledged_after,
    activity_of,
    close_at_rest,
    rank_of,
    read_commands,
    record_at,
    run_health,
    worst_of,
)
from klarm.monitor import not_watched, why_not_watched
from klarm.runs.columns import Columns
from klarm.runs.curve import Curve
from klarm.runs.known import limits_of
from klarm.runs.state import RunState
from klarm.store import FolderStore, LogFile
from klarm.types import SEVERITIES, Alert, Command, Event

_UNKNOWN: dict[RunHealth, str] = {
    "empty": "no step is recorded yet",
    "unreadable": "nothing in its journal can be read",
}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_ROWS_AFTER = 50  # that are read beyond the steps asked for
# A summary is kept if reading what it saves would take longer than reading it.
_MIN_SAVED_BYTES = 2**16


class RunView:
    """Everything that is known of a run. What needs another file is read when it is asked for."""

    def __init__(self, state: RunState, folder: Path, *, size: int = 0, problem: str = "") -> None:
        """Take a state that does not change any more, and the size of the journal."""
        self.state, self.folder, self.problem = state, folder, problem
        self.store, self.run = state.store, state.run
        self._size = size

    @property
    def fold(self) -> Fold:
        """What the records of the journal add up to."""
        return self.state.fold

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.fold.run

    @property
    def latest(self) -> Mapping[str, Any]:
        """The last value of each metric, as the journal has it."""
        return self.state.latest

    @property
    def curves(self) -> Mapping[str, Curve]:
        """Thinned curves of the main metrics."""
        return self.state.curves

    @property
    def damaged(self) -> int:
        """How many lines of the journal are ignored."""
        return self.state.damages.count

    @property
    def last_seen(self) -> float:
        """When it last gave a sign of training."""
        return self.state.last_seen or self.fold.began

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of its latest process."""
        processes = self.state.processes
        return processes[-1].started.config if processes else {}

    @cached_property
    def activity(self) -> Activity:
        """Whether the run is training, or how it ended."""
        return activity_of(self.fold, lambda: self.store.is_free(self.run, "record"))

    @property
    def activity_text(self) -> str:
        """The same in words."""
        return "not followed" if self.activity == "detached" else self.activity

    @property
    def trains(self) -> bool:
        """Whether a process is training it."""
        return self.activity == "training"

    @property
    def may_go_on(self) -> bool:
        """Whether it trains, or may do so unseen."""
        return self.activity in ("training", "detached")

    @cached_property
    def health(self) -> RunHealth:
        """How it is: the severity of its worst open incident, or why nothing is known."""
        if self.problem:
            return "unreadable"
        is_cut_off = not self.trains and self._size > self.state.read_to
        return run_health(
            self.fold,
            self.incidents.values(),
            is_damaged=self.damaged > 0 or is_cut_off,
            is_watched=not self.not_watched,
        )

    @cached_property
    def not_watched(self) -> str:
        """A clause, if no detector knows any of its metrics."""
        return "" if self.problem else not_watched(self.fold, self.latest, self.activity)

    @property
    def why_not_watched(self) -> str:
        """The same without its beginning."""
        return "" if self.problem else why_not_watched(self.fold, self.latest, self.activity)

    @property
    def unknown_because(self) -> str:
        """Why "no incident" would mean nothing, as a clause; empty if the run was watched."""
        return self.not_watched or _UNKNOWN.get(self.health, "")

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
        return [command for command in self.commands if command.key not in self.fold.commands]

    @cached_property
    def incidents(self) -> Mapping[str, IncidentRecord]:
        """The incidents by id, in the order in which they opened.

        If no process trains the run, commands take effect here at once, whoever records them.
        """
        known = self.fold.incidents
        if known and not self.trains and not self.problem and (waiting := self.waiting_commands):
            changed = self.state.copy()
            for command in waiting:
                close_at_rest(changed.fold, command)
            known = changed.fold.incidents
        return {id_: self._undone(incident) for id_, incident in known.items()}

    def _undone(self, incident: IncidentRecord) -> IncidentRecord:
        """Return an incident as rolled back if training has since gone back to before it began.

        Of one that had ended before, nothing else says so, and its rows are those of another
        course now.
        """
        told = (known for known in self.state.events if known.event.id == incident.id)
        last = max((known.place.begin for known in told), default=0)
        for back in self.state.rollbacks:
            is_later = back.last is not None and back.place.begin > last
            if is_later and back.place.step <= incident.last.started and not incident.is_open:
                undone = structs.replace(
                    incident.last, event="resolved", reason="rolled_back", step=back.place.step
                )
                return replace(incident, last=undone)
        return incident

    @property
    def signals(self) -> dict[str, str]:
        """Signals by every name that people use: their own, of detectors, metrics, incidents."""
        own = {known.signal for known in self.incidents.values()}
        return {
            **{subject_of(known): known.signal for known in self.incidents.values()},
            **{k.watches[0]: k.signal for k in reversed(CATALOGUE) if not k.watches_all},
            **{kind.name: kind.signal for kind in CATALOGUE},
            **{signal: signal for signal in sorted({*known_signals(), *own})},
        }

    @property
    def open_incidents(self) -> list[IncidentRecord]:
        """The incidents that are not resolved, the worst first."""
        found = [known for known in self.incidents.values() if known.is_open]
        return sorted(found, key=lambda known: -SEVERITIES.index(known.severity))

    @property
    def worst(self) -> IncidentRecord | None:
        """The worst open incident."""
        return worst_of(self.incidents.values())

    @property
    def order(self) -> tuple[int, bool, int, int, float]:
        """The sort key for lists: the worst first, then the latest.

        Of runs that are equally bad, something can still be done about one that is training.
        """
        found = self.open_incidents
        critical = sum(known.severity == "critical" for known in found)
        return rank_of(self.health), not self.trains, -critical, -len(found), -self.last_seen

    @cached_property
    def outbox(self) -> Outbox:
        """What was sent and what people have asked for, as the files beside the journal say."""
        return self.outbox_saying(lambda _: None)

    def outbox_saying(self, say: Callable[[str], None]) -> Outbox:
        """Return a new outbox, which reports damage of these files."""
        outbox = Outbox(self.folder, say=say, recorded=self.recorded)
        outbox.refresh()
        return outbox

    @property
    def acknowledged(self) -> Mapping[str, Sequence[str]]:
        """Who has acknowledged each incident, even if no process has recorded it yet."""
        found = {id_: known.acknowledged_by for id_, known in self.fold.incidents.items()}
        for command in self.waiting_commands:
            if command.incident in found:
                found[command.incident] = acknowledged_after(command, found[command.incident])
        return {id_: names for id_, names in found.items() if names}

    def silences(self, now: float | None = None) -> list[Silence]:
        """Return the silences that are in force."""
        return self.outbox.in_force(time.time() if now is None else now)

    @cached_property
    def deliveries(self) -> list[Delivered]:
        """What became of its messages."""
        try:
            return [entry for _, entry in deliveries.read(self.folder)]
        except OSError:
            return []

    def events_of(self, incident: str) -> list[Event]:
        """Return the events of an incident, in order."""
        return [told.event for told in self.state.events if told.event.id == incident]

    def recorded(self, start: int = 0) -> Iterator[tuple[int, int, Event]]:
        """Yield all events from an offset on, each with where its line begins and ends."""
        for told in self.state.events:
            if told.place.begin >= start:
                yield told.place.begin, told.place.end, told.event

    def alerts_between(
        self,
        first: int | None = None,
        last: int | None = None,
        *,
        detectors: Collection[str] | None = None,
        severity: str = "",
    ) -> Alerts:
        """Return the alerts in a range of steps."""
        return Alerts(self, first, last, detectors, severity)

    def columns_around(self, first: int, last: int | None, metrics: Collection[str]) -> Columns:
        """Return some metrics in a range of steps, and in rows before and after it.

        Only this part of the journal is read.
        """
        places = self.state.places
        # The place before the range, and one more, because rows before it are wanted, too.
        before = bisect_right(places, (first - 1, 2**63)) - 2
        columns = Columns(self.store, self.run, self.state.rollbacks, metrics)
        columns.read_to = places[before][1] if before >= 0 else 0
        while columns.read(self.state.read_to):
            if last is None or not columns.rises("step"):
                continue
            steps = columns.steps()
            if len(steps) - int(np.searchsorted(steps, last, "right")) >= _ROWS_AFTER:
                break
        return columns


class Alerts:
    """Alerts of a run that fit some conditions, read from the journal when they are looked at."""

    def __init__(
        self,
        view: RunView,
        first: int | None,
        last: int | None,
        detectors: Collection[str] | None,
        severity: str,
    ) -> None:
        self._view, known = view, view.state.alerts
        self._file = LogFile(view.store, view.run)
        self._begins = np.array(known.begins, np.int64)
        self._steps = np.array(known.steps, np.int64)
        self._kinds = np.array(known.kinds, np.int64)
        fits = np.ones(len(self._steps), np.bool_)
        if first is not None:
            fits &= self._steps >= first
        if last is not None:
            fits &= self._steps <= last
        if detectors is not None:
            numbers = [n for n, name in enumerate(known.detectors) if name in detectors]
            fits &= np.isin(self._kinds // 2, numbers)
        if severity:
            fits &= self._kinds % 2 == (severity == "critical")
        self._rows = np.flatnonzero(fits)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Alert]:
        for row in self._rows.tolist():
            yield from self._read(row)

    def latest(self, limit: int) -> list[tuple[float, bool, Alert]]:
        """Return the last of them: when each was, whether it still counts, and the alert."""
        rows, times = self._rows[-limit:], self._view.state.alerts.times
        limits = self._limits()
        return [
            (times[row], bool(self._steps[row] < limits[row]), alert)
            for row in rows.tolist()
            for alert in self._read(row)
        ]

    def that_count(self) -> list[int]:
        """Return the steps of those that were not rolled back."""
        rows = self._rows[self._steps[self._rows] < self._limits()[self._rows]]
        found: list[int] = self._steps[rows].tolist()
        return found

    def by_detector(self) -> dict[str, int]:
        """Count them by detector, in the order of their first alerts."""
        numbers, firsts, counts = np.unique(
            self._kinds[self._rows] // 2, return_index=True, return_counts=True
        )
        names = self._view.state.alerts.detectors
        return {names[numbers[n]]: int(counts[n]) for n in np.argsort(firsts)}

    def _limits(self) -> np.ndarray[Any, Any]:
        """Return for each alert of the run below which step it counts."""
        limits = np.full(len(self._steps), np.inf)
        for begin, limit in limits_of(self._view.state.rollbacks):
            limits[self._begins >= begin] = limit
        return limits

    def _read(self, row: int) -> Iterator[Alert]:
        record = record_at(self._file, int(self._begins[row]))  # type: ignore[arg-type]
        if isinstance(record, Alert):
            yield record


def store_of(folder: Path) -> tuple[FolderStore, str]:
    """Return the store of a run's folder, and its name there."""
    folder = folder.absolute()
    return FolderStore(folder.parent), folder.name


def read_run(folder: Path, on_progress: Callable[[int, int], None] = lambda *_: None) -> RunView:
    """Read the journal of a run as far as it is not known yet. Bad content does not raise.

    `on_progress` is called with the bytes read, and with all.
    """
    store, run = store_of(folder)
    state, size, problem = RunState(store, run), 0, ""
    try:
        listed = store.runs(only=[run]).cursor.get(run)
        size = 0 if listed is None else listed.logs["journal"].size
        continue_from_summary(state, size)
        before = state.read_to
        for read_to in state.read_all():
            on_progress(read_to, size)
        if state.read_to - before >= _MIN_SAVED_BYTES:
            keep_summary(state, size)
    except OSError as error:
        problem = error.strerror or "cannot be read"
    return RunView(state, folder, size=max(size, state.read_to), problem=problem)


def continue_from_summary(state: RunState, size: int) -> bool:
    """Continue from what is kept of a run; return whether there was anything."""
    kept = state.store.summary(state.run)
    return bool(kept) and state.restore(kept, size)


def keep_summary(state: RunState, size: int) -> None:
    """Keep what is known of a run, for the next process that wants to know."""
    with contextlib.suppress(OverflowError):  # a step beyond 64 bits, which klarm does not write
        state.store.summary(state.run, state.saved(size))


def ago(moment: float, now: float | None = None) -> str:
    """Return how long ago something happened, in the largest unit.

    >>> ago(0.0, 7_300.0), ago(5.0, 0.0), ago(100.0, 142.0)
    ('2 h ago', 'just now', '42 s ago')
    """
    seconds = (time.time() if now is None else now) - moment
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"
