"""Words for facts: alerts, incidents, events, numbers. Nothing reads them back."""

from __future__ import annotations

from klarm.wording.alerts import message_of_alert, recommendation_of, sentence_of
from klarm.wording.events import (
    COLOURS,
    advice,
    before_it_began,
    ending,
    event_panel,
    event_paragraphs,
    event_text,
    headline,
    incidents_in_sum,
    short_title,
    since,
    standing,
    state,
    title,
    what_began,
    what_happened,
)
from klarm.wording.moved import what_moved
from klarm.wording.numbers import counted, number
from klarm.wording.reasons import before_it, why
from klarm.wording.template import MissingFactError, fill

__all__ = [
    "COLOURS",
    "MissingFactError",
    "advice",
    "before_it",
    "before_it_began",
    "counted",
    "ending",
    "event_panel",
    "event_paragraphs",
    "event_text",
    "fill",
    "headline",
    "incidents_in_sum",
    "message_of_alert",
    "number",
    "recommendation_of",
    "sentence_of",
    "short_title",
    "since",
    "standing",
    "state",
    "title",
    "what_began",
    "what_happened",
    "what_moved",
    "why",
]
