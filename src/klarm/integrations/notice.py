"""An event in the words of a tracker's alert: a title and a text."""

from __future__ import annotations

from klarm.types import Event


def worth_an_alert(event: Event) -> bool:
    """Tell whether people should see it in their tracker: that it is over is no alert."""
    return event.event in ("opened", "escalated")


def title(event: Event) -> str:
    """Return a short line: W&B takes less than 64 characters."""
    return f"klarm: {event.severity} on {event.signal} ({event.event}, incident {event.incident})"


def text(event: Event) -> str:
    """Return what happened, what it looks like and what to do."""
    parts = [f"Step {event.step}, since step {event.started}: {event.message}"]
    if event.moved:
        parts.append(f"Moved: {event.moved}")
    if event.pattern:
        parts.append(f"Looks like {event.pattern}: {event.cause}. {event.remedy}")
    parts.append(event.recommendation)
    if event.checkpoint:
        parts.append(f"Last checkpoint from before it: {event.checkpoint}")
    return "\n".join(parts)
