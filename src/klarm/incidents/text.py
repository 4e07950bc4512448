"""Incidents in words: as lines, as a panel, and in sum at the end of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from klarm.types import GRAVER, Event, Incident, Severity

if TYPE_CHECKING:
    from rich.console import RenderableType

COLOURS: dict[Severity, str] = {"warning": "yellow", "critical": "red"}
# The end of a run names so many incidents; the journal has them all.
_MOST_NAMED = 5


def event_text(event: Event) -> str:
    """Return a change of an incident as lines: all there is to say when it opens, later less."""
    if event.event == "resolved":
        how = "resolved" if event.recovered else "went quiet"
        return (
            f"klarm INCIDENT {event.incident} on {event.signal} {how} at step {event.step} "
            f"({event.severity}, since step {event.started}): {event.reason}"
        )
    head, *rest = _parts(event)
    lines = [f"klarm INCIDENT {_title(event)}: {head}", *rest, f"-> {event.recommendation}"]
    return "\n  ".join(lines)


def event_panel(event: Event) -> RenderableType:
    """Return an incident that opened or got worse as a rich panel."""
    from rich.panel import Panel
    from rich.text import Text

    colour = COLOURS[event.severity]
    head, *rest = _parts(event)
    body = Text.assemble((head, "bold"), *(f"\n{line}" for line in rest))
    body.append("\n→ ", colour).append(event.recommendation)
    title = Text(f"klarm incident {_title(event)}", f"bold {colour}")
    return Panel(body, title=title, title_align="left", border_style=colour)


def incidents_in_sum(incidents: Iterable[Incident]) -> str:
    """Say in a few words which incidents a run had, the latest last."""
    opened = [incident for incident in incidents if incident.id]
    if not opened:
        return "no incident"
    told = [_in_short(incident) for incident in opened[-_MOST_NAMED:]]
    more = ["..."] if len(opened) > len(told) else []
    return f"{counted(len(opened), 'incident')} ({'; '.join([*more, *told])})"


def counted(count: int, noun: str) -> str:
    """Return a number of things.

    >>> counted(1, "step"), counted(12, "critical alert")
    ('1 step', '12 critical alerts')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _title(event: Event) -> str:
    became = f"opened, {event.severity}"
    if event.event == "escalated":
        became = "is now critical" if event.reason == GRAVER else f"is far worse, {event.severity}"
    return f"{event.incident} on {event.signal} {became}, step {event.step}"


def _parts(event: Event) -> list[str]:
    """Return the message, with its numbers, and what else was found when it opened."""
    if event.event == "escalated":
        return [event.message] if event.reason == GRAVER else [event.reason, event.message]
    parts = [event.message, f"since step {event.started}; {event.reason}"]
    if event.moved:
        parts.append(f"moved: {event.moved}")
    if event.pattern:
        parts.append(f"looks like {event.pattern}: {event.cause}. {event.remedy}")
    if event.checkpoint:
        parts.append(f"last checkpoint from before it: {event.checkpoint}")
    return parts


def _in_short(incident: Incident) -> str:
    when = f"open since step {incident.started}"
    if incident.ended is not None:
        how = "" if incident.recovered else ", not recovered"
        when = f"steps {incident.started} to {incident.ended}{how}"
    return f"{incident.signal}, {incident.severity}, {when}"
