"""The monitor: passes each step from the trainer to detectors, journal and listeners."""

from __future__ import annotations

from klarm.monitor.command_watch import CommandWatch
from klarm.monitor.coverage import idle, idle_lines, watched, watched_in_short
from klarm.monitor.disabled import DisabledMonitor
from klarm.monitor.ending import Ending
from klarm.monitor.missing import hints, unknown_columns
from klarm.monitor.monitor import Monitor
from klarm.monitor.steps import whole_step
from klarm.monitor.summary import why_no_incident
from klarm.monitor.unwatched import not_watched, why_not_watched, without_kl

__all__ = [
    "CommandWatch",
    "DisabledMonitor",
    "Ending",
    "Monitor",
    "hints",
    "idle",
    "idle_lines",
    "not_watched",
    "unknown_columns",
    "watched",
    "watched_in_short",
    "whole_step",
    "why_no_incident",
    "why_not_watched",
    "without_kl",
]
