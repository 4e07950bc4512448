"""An event in the words of a tracker's alert: a title and a text."""

from __future__ import annotations

from klarm.incidents import event_paragraphs, is_alarm, short_title
from klarm.types import Event


def worth_an_alert(event: Event) -> bool:
    """Tell whether people should see it in their tracker: what became of it is no alert."""
    return is_alarm(event)


def title(event: Event) -> str:
    """Return a short line: W&B takes less than 64 characters."""
    return short_title(event)


def text(event: Event) -> str:
    """Return what happened, what it looks like and what to do."""
    return event_paragraphs(event)
