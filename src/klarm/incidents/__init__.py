"""Incidents: they turn alerts into episodes, with their end, what else moved and what to do."""

from __future__ import annotations

from klarm.incidents.checkpoints import (
    Broken,
    Saved,
    can_be_loaded,
    damage_of,
    unsafe_since,
    unsafe_spans,
)
from klarm.incidents.event_facts import (
    early_onset,
    is_alarm,
    is_back,
    is_crash,
    is_undone,
    measured_by,
    metric_of,
    peak_is_finite,
    subject_of,
)
from klarm.incidents.excused import SMALL
from klarm.incidents.own_keys import own_keys
from klarm.incidents.recovery import BETTER_HIGH, is_worse, stays_away
from klarm.incidents.rules import IncidentRules
from klarm.incidents.tracker import Change, Tracker

__all__ = [
    "BETTER_HIGH",
    "SMALL",
    "Broken",
    "Change",
    "IncidentRules",
    "Saved",
    "Tracker",
    "can_be_loaded",
    "damage_of",
    "early_onset",
    "is_alarm",
    "is_back",
    "is_crash",
    "is_undone",
    "is_worse",
    "measured_by",
    "metric_of",
    "own_keys",
    "peak_is_finite",
    "stays_away",
    "subject_of",
    "unsafe_since",
    "unsafe_spans",
]
