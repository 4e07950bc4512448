"""Replay: runs the monitor over a recorded log as if it were live."""

from __future__ import annotations

from collections import Counter
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
    Ending,
    Monitor,
    hints,
    idle,
    idle_lines,
    unknown_columns,
    watched,
    watched_in_short,
    why_no_incident,
)
from klarm.sources import LogRow, OtherRecord
from klarm.types import Alert, Command, Event


@dataclass(frozen=True)
class Replay:
    """The result of a replay."""

    steps: int  # without those rolled back
    rolled_back: int  # number of steps that were rolled back
    alerts: list[Alert]
    events: list[Event]
    incidents: list[IncidentRecord]  # without those rolled back
    unconfirmed: list[str]  # why the alerts opened no incident; empty if one was opened
    binding: list[str]  # short lines: what was read, what was idle, and what to do about it
    watched: list[str]  # names of the detectors that were active
    idle: dict[str, str]  # names of the idle detectors, and why
    names: list[str]  # all metrics in the log
    keys: dict[str, str]  # the column that each metric was read from
    unknown: str  # a message if nothing in the log is known; otherwise empty


def replay(
    rows: Iterable[LogRow | OtherRecord],
    configure: Callable[[Mapping[str, object] | None], Config],
    ids: NewId | None = None,
) -> Replay:
    """Run the monitor over a log and return the result. Nothing is written.

    A journal records where a process resumed the run, and with which settings. A new monitor
    continues there, as it did live. Commands are applied where the journal has them. `configure`
    returns the configuration for the recorded settings, or for None if the log is not a journal.
    `ids` gives incidents the ids that commands in the journal refer to; see `ids_in`.
    """
    ids = ids or counting_ids()
    journal = MemoryJournal()
    monitor: Monitor | None = None
    watching: Monitor | None = None  # the last one that got a row: `klarm close` logs none
    origins: dict[str, Origin] = {}  # the trainer's keys, where the journal has other names
    alerts: list[Alert] = []
    of_journal = False
    for row in rows:
        if monitor is None or isinstance(row, Started):
            # An earlier process that recorded no end was killed, so its monitor is not finished.
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
            monitor.end_as(Ending.recorded(row.outcome, row.error))
            monitor.finish()
        elif isinstance(row, LogRow):
            if row.late is None:
                alerts += monitor.log(row.metrics, row.step)
            else:
                alerts += monitor.log_late(row.metrics, row.step, row.late)
            watching = monitor
    if monitor is None:
        config = configure(None)
        monitor = _monitor(config, journal, ids)
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
        unconfirmed=[]
        if fold.incidents
        else why_no_incident(
            Counter(alert.detector for alert in alerts),
            watching.excused_alerts,
            detectors,
            config.incident_rules(),
            decisive={alert.detector for alert in alerts if alert.decisive},
        ),
        binding=[
            watched_in_short(detectors, binding),
            *idle_lines(detectors, binding),
            *hints(detectors, binding, from_log=True),
        ],
        watched=[d.name for d in detectors if d.name not in resting] if judging else [],
        idle=resting,
        names=binding.names(),
        keys=dict(binding.keys),
        unknown="" if judging else unknown_columns(binding),
    )


def ids_in(log: Path) -> NewId:
    """Return a function that gives incidents their ids: those of a journal, or in order."""
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
