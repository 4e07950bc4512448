"""Replay: the monitor over a recorded log, as if it were being trained now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from klarm.config import Config
from klarm.journal import (
    FILE_NAME,
    Bound,
    Checkpoint,
    Finish,
    Fold,
    IncidentRecord,
    MemoryJournal,
    NewId,
    Resume,
    Started,
    counting_ids,
    is_journal,
    recorded_events,
    recorded_ids,
)
from klarm.metrics import Origin
from klarm.monitor import (
    Monitor,
    hints,
    idle,
    idle_lines,
    unknown_columns,
    watched,
    watched_in_short,
)
from klarm.sources import LogRow, OtherRecord
from klarm.types import Alert, Command, Event


@dataclass(frozen=True)
class Replay:
    """What the monitor says of a log."""

    steps: int  # that still count
    rolled_back: int  # steps that do not
    alerts: list[Alert]
    events: list[Event]  # what became of them
    incidents: list[IncidentRecord]  # and what these amount to, but for those rolled back
    binding: list[str]  # what was read, what was idle and what to do about it, in short lines
    watched: list[str]  # detectors
    idle: dict[str, str]  # detectors and why
    names: list[str]  # of the metrics in the log
    keys: dict[str, str]  # the column that each metric was read from
    unknown: str  # what to say of a log in which nothing is known; empty if something is


def replay(
    rows: Iterable[LogRow | OtherRecord],
    configure: Callable[[Mapping[str, object] | None], Config],
    ids: NewId | None = None,
) -> Replay:
    """Run the monitor over a log and return what it says; nothing is written.

    A journal tells where a process took the run up and with which settings: there a new monitor
    goes on from the record, as it did then. Commands are applied where the journal has them.
    `configure` gives the configuration for the recorded settings, or for none in a log of another
    kind. `ids` gives incidents the ids by which commands in the journal name them: `ids_in`.
    """
    ids = ids or counting_ids()
    journal = MemoryJournal()
    monitor: Monitor | None = None
    watching: Monitor | None = None  # the last that was given a row: `klarm close` trains nothing
    origins: dict[str, Origin] = {}  # the trainer's keys, where the journal has other names
    alerts: list[Alert] = []
    of_journal = False
    for row in rows:
        if monitor is None or isinstance(row, Started):
            # An earlier process that did not say that it ended was killed: it said no more.
            config = configure(row.config if isinstance(row, Started) else None)
            monitor = _monitor(config, journal, ids, of_journal=isinstance(row, Started))
            monitor._bound(origins)
            of_journal = isinstance(row, Started)
        if isinstance(row, Resume):
            monitor.resume(row.step)
        elif isinstance(row, Bound):
            origins.update(row.origins())
            monitor._bound(origins)
        elif isinstance(row, Checkpoint):
            monitor.checkpoint(row.step, row.path)
        elif isinstance(row, Command):
            monitor.apply(row)
        elif isinstance(row, Finish):
            monitor.finish()
        elif isinstance(row, LogRow):
            if row.late is None:
                alerts += monitor.log(row.metrics, row.step)
            else:
                alerts += monitor.log_late(row.metrics, row.step, row.late)
            watching = monitor
    if monitor is None:
        monitor = _monitor(configure(None), journal, ids)
    if not of_journal:
        monitor.finish()
    watching = watching or monitor
    detectors, binding = watching.detectors, watching.binding
    resting, judging = idle(detectors, binding), watched(detectors, binding)
    fold = Fold(journal.stored())
    events = fold.update()
    return Replay(
        steps=fold.steps,
        rolled_back=fold.rolled_back,
        alerts=alerts,
        events=events,
        incidents=[known for known in fold.incidents.values() if not known.was_rolled_back],
        binding=[
            watched_in_short(detectors, binding),
            *idle_lines(detectors, binding),
            *hints(detectors, binding, recorded=True),
        ],
        watched=[d.name for d in detectors if d.name not in resting] if judging else [],
        idle=resting,
        names=binding.names(),
        keys=dict(binding.keys),
        unknown="" if judging else unknown_columns(binding),
    )


def ids_in(log: Path) -> NewId:
    """Return what gives incidents the ids that they have in a journal; in order elsewhere."""
    journal = log / FILE_NAME if log.is_dir() else log
    if not is_journal(journal):
        return counting_ids()
    return recorded_ids(event for _, _, event in recorded_events(journal))


def _monitor(
    config: Config, journal: MemoryJournal, ids: NewId, *, of_journal: bool = False
) -> Monitor:
    return Monitor(
        "replay",
        config.detectors(),
        journal,
        rules=config.incident_rules(),
        framework=config.framework,
        user_keys=config.metrics,
        of_journal=of_journal,
        ids=ids,
    )
