"""Reads the line of a message that says what else moved."""

from __future__ import annotations

import re
from collections.abc import Iterable

from klarm.types import Event


def date_of(metric: str, moved: str) -> int | None:
    """Return the step from which a metric is said to have moved; None if it is not said."""
    for part in re.split(r"; |, then |^first ", moved):
        listed, _, date = part.partition(" since step ")
        if date and re.search(rf"(?<![\w/]){re.escape(metric)}(?![\w/])", listed):
            return int(re.split(r"\D", date)[0])
    return None


def dates_of(metric: str, events: Iterable[Event]) -> list[int]:
    """Return this step of all events that give one."""
    dates = [date_of(metric, event.moved) for event in events]
    return [date for date in dates if date is not None]
