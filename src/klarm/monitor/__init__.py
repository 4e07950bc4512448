"""The monitor: passes each step from the trainer to detectors, journal and listeners."""

from __future__ import annotations

from klarm.monitor.command_watch import CommandWatch
from klarm.monitor.coverage import hints, idle, idle_lines, watched_in_short
from klarm.monitor.monitor import Monitor
from klarm.monitor.steps import whole_step

__all__ = [
    "CommandWatch",
    "Monitor",
    "hints",
    "idle",
    "idle_lines",
    "watched_in_short",
    "whole_step",
]
