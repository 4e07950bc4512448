"""Incidents: they turn alerts into episodes, with their end, what else moved and what to do."""

from __future__ import annotations

from klarm.incidents.checkpoints import (
    Broken,
    Saved,
    can_be_loaded,
    damage_of,
    unsafe_spans,
)
from klarm.incidents.crash import is_crash
from klarm.incidents.hindsight import early_onset
from klarm.incidents.numbers import counted
from klarm.incidents.own_keys import own_keys
from klarm.incidents.reasons import before_it, is_undone, peak_is_finite, why
from klarm.incidents.rules import IncidentRules
from klarm.incidents.standing import ending, standing
from klarm.incidents.subject import metric_of, subject_of
from klarm.incidents.text import (
    COLOURS,
    advice,
    before_it_began,
    event_panel,
    event_paragraphs,
    event_text,
    headline,
    incidents_in_sum,
    is_alarm,
    short_title,
    since,
    state,
    title,
    what_began,
    what_happened,
)
from klarm.incidents.tracker import Change, Tracker
from klarm.text import number

__all__ = [
    "COLOURS",
    "Broken",
    "Change",
    "IncidentRules",
    "Saved",
    "Tracker",
    "advice",
    "before_it",
    "before_it_began",
    "can_be_loaded",
    "counted",
    "damage_of",
    "early_onset",
    "ending",
    "event_panel",
    "event_paragraphs",
    "event_text",
    "headline",
    "incidents_in_sum",
    "is_alarm",
    "is_crash",
    "is_undone",
    "metric_of",
    "number",
    "own_keys",
    "peak_is_finite",
    "short_title",
    "since",
    "standing",
    "state",
    "subject_of",
    "title",
    "unsafe_spans",
    "what_began",
    "what_happened",
    "why",
]
