"""An event as an alert of an experiment tracker: a title and a text."""

from __future__ import annotations

from klarm.incidents import is_alarm, is_crash
from klarm.types import Event
from klarm.wording import event_paragraphs, short_title


def worth_an_alert(event: Event) -> bool:
    """Return whether an event is an alert for the tracker: only openings and escalations are.

    The run of the tracker may have ended when klarm reports a crash.
    """
    return is_alarm(event) and not is_crash(event)


def title(event: Event) -> str:
    """Return a short line: W&B takes less than 64 characters."""
    return short_title(event)


def text(event: Event) -> str:
    """Return what happened, the probable cause and what to do."""
    return event_paragraphs(event)
