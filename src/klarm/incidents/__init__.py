"""Incidents: what alerts amount to, how they end, what else moved and what to do."""

from __future__ import annotations

from klarm.incidents.checkpoints import Checkpoints, Saved, is_there
from klarm.incidents.playbook import diagnosed
from klarm.incidents.recovery import Recoveries
from klarm.incidents.text import COLOURS, counted, event_panel, event_text, incidents_in_sum
from klarm.incidents.tracker import IncidentRules, Incidents
from klarm.incidents.trends import Direction, RecentRows

__all__ = [
    "COLOURS",
    "Checkpoints",
    "Direction",
    "IncidentRules",
    "Incidents",
    "RecentRows",
    "Recoveries",
    "Saved",
    "counted",
    "diagnosed",
    "event_panel",
    "event_text",
    "incidents_in_sum",
    "is_there",
]
