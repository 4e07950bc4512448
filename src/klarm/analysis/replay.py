"""Replay: the monitor over a recorded log, as if it were being trained now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from klarm.analysis.episodes import Episode, episodes
from klarm.config import Config
from klarm.journal import Bound, Checkpoint, MemoryJournal, Resume, Started, Step
from klarm.metrics import Origin
from klarm.monitor import Monitor, hints, idle, idle_lines, watched_in_short
from klarm.sources import LogRow, Told
from klarm.types import Alert, Event


@dataclass(frozen=True)
class Replay:
    """What the monitor says of a log."""

    steps: int  # that still count
    rolled_back: int  # steps that do not
    alerts: list[Alert]
    events: list[Event]  # what became of them
    incidents: list[Episode]  # and what these amount to
    binding: list[str]  # what was read, what was idle and what to do about it, in short lines
    watched: list[str]  # detectors
    idle: dict[str, str]  # detectors and why
    names: list[str]  # of the metrics in the log


def replay(
    rows: Iterable[LogRow | Told],
    configure: Callable[[Mapping[str, object] | None], Config],
) -> Replay:
    """Run the monitor over a log and return what it says; nothing is written.

    A journal tells where a process took the run up and with which settings: there a new monitor
    goes on from the record, as it did then. `configure` gives the configuration for the recorded
    settings, or for none in a log of another kind.
    """
    journal = MemoryJournal()
    monitor: Monitor | None = None
    origins: dict[str, Origin] = {}  # the trainer's keys, where the journal has other names
    alerts: list[Alert] = []
    for row in rows:
        if monitor is None or isinstance(row, Started):
            config = configure(row.config if isinstance(row, Started) else None)
            if monitor is not None:
                monitor.finish()
            monitor = _monitor(config, journal, of_journal=isinstance(row, Started))
            monitor.bound(origins)
        if isinstance(row, Resume):
            monitor.resume(row.step)
        elif isinstance(row, Bound):
            origins.update(row.origins())
            monitor.bound(origins)
        elif isinstance(row, Checkpoint):
            monitor.checkpoint(row.step, row.path)
        elif isinstance(row, LogRow):
            alerts += monitor.log(row.metrics, row.step)
    if monitor is None:
        monitor = _monitor(configure(None), journal)
    monitor.finish()
    detectors, binding = monitor.detectors, monitor.binding
    resting = idle(detectors, binding)
    steps, rolled_back = _count_steps(journal)
    events = [record for record in journal.records if isinstance(record, Event)]
    return Replay(
        steps=steps,
        rolled_back=rolled_back,
        alerts=alerts,
        events=events,
        incidents=episodes(events),
        binding=[
            watched_in_short(detectors, binding),
            *idle_lines(detectors, binding),
            *hints(detectors, binding),
        ],
        watched=[detector.name for detector in detectors if detector.name not in resting],
        idle=resting,
        names=binding.names(),
    )


def _count_steps(journal: MemoryJournal) -> tuple[int, int]:
    """Return how many steps still count, and how many were rolled back."""
    counting: list[int] = []
    rolled_back = 0
    for record in journal.records:
        if isinstance(record, Step) and (not counting or counting[-1] != record.step):
            counting.append(record.step)
        elif isinstance(record, Resume):
            while counting and counting[-1] >= record.step:
                counting.pop()
                rolled_back += 1
    return len(counting), rolled_back


def _monitor(config: Config, journal: MemoryJournal, *, of_journal: bool = False) -> Monitor:
    return Monitor(
        "replay",
        config.detectors(),
        journal,
        rules=config.incident_rules(),
        framework=config.framework,
        user_keys=config.metrics,
        of_journal=of_journal,
    )
