"""Reopening: the same trouble again, soon after it recovered or while it had settled."""

from __future__ import annotations

from klarm.incidents.confirmation import Confirmed, is_more_severe
from klarm.incidents.episode import Episode
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.recovery import is_further, is_times_worse
from klarm.incidents.rules import IncidentRules
from klarm.types import Event


def reopen(
    episode: Episode,
    again: Episode,
    step: int,
    confirmed: Confirmed,
    *,
    rules: IncidentRules,
    recent: RecentRows,
    rows_since_recovery: int,
) -> list[Event]:
    """Reopen an incident that has recovered recently, with the episode in which it came back."""
    incident = episode.incident
    far_worse = is_further(
        again.incident.peak, incident.peak, episode.kind, rules.reopen_factor, episode.normal
    )
    episode.merge(again, recent)
    episode.reopenings += 1
    incident.state, incident.ended, incident.reason = "open", None, ""
    incident.at_new_level = False
    changes = [episode.event("reopened", step, "returned", recent, rows=rows_since_recovery)]
    if is_more_severe(confirmed.severity, incident.severity):
        incident.severity, incident.worst = confirmed.severity, confirmed.by.alert
        changes.append(episode.event("escalated", step, "severity_raised", recent))
    elif far_worse:
        incident.worst = confirmed.by.alert
        changes.append(episode.event("escalated", step, "far_worse", recent))
    return changes


def is_new_problem(
    episode: Episode,
    again: Episode,
    confirmed: Confirmed,
    rules: IncidentRules,
    recent: RecentRows,
) -> bool:
    """Return whether a confirmed alert on a settled incident is more than the same again."""
    kind = confirmed.by.kind
    if kind not in episode.courses:
        return True
    if is_more_severe(confirmed.severity, episode.incident.severity):
        return True
    if confirmed.by.value is None:
        return False
    worst, level = again.courses[kind].worst, episode.level(kind, recent)
    return is_times_worse(worst, level, kind[1], rules.relapse_factor)


def unsettle(episode: Episode, again: Episode, step: int, recent: RecentRows) -> Event:
    """Open a settled incident again, with the episode in which the same alert came back."""
    episode.merge(again, recent)
    episode.excuse = None
    episode.incident.state, episode.incident.level = "open", None
    return episode.event("reopened", step, "alert_while_settled", recent)
