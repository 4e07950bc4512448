"""Reads the state of a recorded run from its journal, for commands that show it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from klarm.cli.curve import Curve
from klarm.delivery import Outbox
from klarm.journal import (
    FILE_NAME,
    Activity,
    AnyStep,
    Damage,
    Fold,
    IncidentRecord,
    OnDamage,
    Record,
    Resume,
    RunHealth,
    activity_of,
    rank_of,
    run_health,
)
from klarm.monitor import not_watched, why_not_watched

_UNKNOWN: dict[RunHealth, str] = {
    "empty": "no step is recorded yet",
    "unreadable": "nothing in its journal can be read",
}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


@dataclass
class RecordedRun:
    """The current state of a run according to its journal."""

    folder: Path
    fold: Fold
    curves: dict[str, Curve]
    activity: Activity = "stopped"
    health: RunHealth = "empty"
    last_seen: float = 0.0  # time of its last step, or of its start
    latest: dict[str, Any] = field(default_factory=dict)  # the last value of each metric
    damaged: int = 0  # damaged lines, which are ignored
    problem: str = ""  # why the journal could not be read
    not_watched: str = ""  # a clause, if no detector knows any of its metrics
    why_not_watched: str = ""  # the same without its beginning

    @property
    def activity_text(self) -> str:
        """Whether the run is training, or how it ended, in words."""
        return "not followed" if self.activity == "detached" else self.activity

    @property
    def unknown_because(self) -> str:
        """Why "no incident" would mean nothing, as a clause; empty if the run was watched."""
        return self.not_watched or _UNKNOWN.get(self.health, "")

    @property
    def open_incidents(self) -> list[IncidentRecord]:
        """The incidents that are not resolved, the worst first."""
        found = [known for known in self.fold.incidents.values() if known.is_open]
        return sorted(found, key=lambda known: known.severity != "critical")

    @property
    def order(self) -> tuple[int, bool, int, int, float]:
        """The sort key for lists: the worst first, then the latest. The page has the same order.

        Of runs that are equally bad, something can still be done about one that is training.
        """
        found = self.open_incidents
        critical = sum(known.severity == "critical" for known in found)
        is_over = self.activity != "training"
        return rank_of(self.health), is_over, -critical, -len(found), -self.last_seen


def read_run(folder: Path, *metrics: str, on_damage: OnDamage | None = None) -> RecordedRun:
    """Read the journal of a run, with the curves of some metrics. Bad content does not raise.

    `on_damage` is called with the number of each line that is ignored, and why.
    """
    journal = folder / FILE_NAME
    curves = {metric: Curve(metric) for metric in metrics}

    def count_damage(line: int, why: Damage) -> None:
        run.damaged += 1
        if on_damage is not None:
            on_damage(line, why)

    def on_steps(steps: Sequence[AnyStep]) -> None:
        for step in steps:
            run.latest.update(step.metrics)
            for metric, curve in curves.items():
                curve.add(step.step, step.metrics.get(metric))
        run.last_seen = steps[-1].time

    def on_record(record: Record, _: bytes) -> None:
        if isinstance(record, Resume):
            for curve in curves.values():
                curve.go_back(record.step)

    fold = Fold(journal, count_damage, on_record, on_steps)
    run = RecordedRun(folder, fold, curves)
    try:
        fold.update()
        is_cut_off = journal.stat().st_size > fold.read_to
    except OSError as error:
        run.health, run.problem = "unreadable", error.strerror or "cannot be read"
        return run
    run.last_seen = run.last_seen or fold.began
    run.activity = activity_of(fold, journal)
    is_damaged = run.damaged > 0 or (is_cut_off and run.activity != "training")
    run.not_watched = not_watched(fold, run.latest, run.activity)
    run.why_not_watched = why_not_watched(fold, run.latest, run.activity)
    run.health = run_health(
        fold,
        fold.incidents.values(),
        is_damaged=is_damaged,
        is_watched=not run.not_watched,
    )
    return run


def acknowledged_in(folder: Path) -> dict[str, list[str]]:
    """Return who has acknowledged which incident, by id, even if no process has recorded it yet."""
    outbox = Outbox(folder)
    outbox.refresh()
    return {id_: list(names) for id_, names in outbox.acknowledged.items() if names}


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
