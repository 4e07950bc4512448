"""Replay: the monitor over a recorded log, as if it were being trained now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from klarm.binding import binding_line
from klarm.config import Config
from klarm.journal import MemoryJournal, Resume
from klarm.monitor import Monitor
from klarm.sources import LogRow
from klarm.types import Alert


@dataclass(frozen=True)
class Replay:
    """What the monitor says of a log."""

    steps: int
    alerts: list[Alert] = field(default_factory=list)
    # What each detector read, and which were idle and why.
    binding: str = ""


def replay(rows: Iterable[LogRow | Resume], config: Config) -> Replay:
    """Run the monitor over a log and return what it says; nothing is written."""
    monitor = Monitor("replay", config.detectors(), MemoryJournal())
    alerts: list[Alert] = []
    steps = 0
    for row in rows:
        if isinstance(row, Resume):
            monitor.resume(row.step)
        else:
            steps += 1
            alerts += monitor.log(row.metrics, row.step)
    return Replay(steps, alerts, binding_line(monitor.detectors, monitor.binding.keys))
