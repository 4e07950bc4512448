"""How an incident stands or how it ended, in the words that titles, tables and the page share."""

from __future__ import annotations

from klarm.incidents.reasons import is_back, is_undone
from klarm.journal import IncidentRecord
from klarm.types import Event

UNRESOLVED = "unresolved when the run ended"
AT_A_NEW_LEVEL = "at a new level"  # resolved without alerts, but not back near the earlier level


def standing(incident: IncidentRecord, *, may_go_on: bool) -> str:
    """Return the state of a recorded incident, or how it was resolved.

    `may_go_on` says that its run is training, or may be.
    """
    if incident.state != "resolved":
        return incident.state if may_go_on else UNRESOLVED
    how = ending(incident.last)
    return f"resolved ({how})" if how == AT_A_NEW_LEVEL else how


def ending(event: Event) -> str:
    """Return how an incident was resolved, given the event of its end.

    >>> from klarm.types import Event
    >>> end = Event("resolved", 3, "reward", "warning", 250, 200, ["reward_drift"], 1.8,
    ...             "recovered", "", "", "k3f7q2ab", metric="reward", level=1.74, before=0.4)
    >>> ending(end)
    'at a new level'
    """
    if is_undone(event):
        return "rolled back"
    if event.reason == "recovered" and not is_back(event):
        return AT_A_NEW_LEVEL
    return event.reason.replace("_", " ")
