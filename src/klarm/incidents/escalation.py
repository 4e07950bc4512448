"""Escalation: what makes an open incident worth another notification."""

from __future__ import annotations

import math
from collections.abc import Sequence

from klarm.incidents.confirmation import Confirmation, Confirmed, is_more_severe
from klarm.incidents.episode import Episode
from klarm.incidents.measured import Measured
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.recovery import is_further
from klarm.incidents.rules import IncidentRules
from klarm.types import Alert, Event


def escalate(
    episode: Episode,
    step: int,
    alerts: Sequence[Measured],
    confirmation: Confirmation,
    *,
    rules: IncidentRules,
    recent: RecentRows,
) -> list[Event]:
    """Return the escalation of an open incident by the alerts of a row, if they are one.

    It is if a higher severity is confirmed, if the metric is far worse than when people were last
    notified, if values are still not finite, or if another kind of trouble has joined it.
    """
    incident = episode.incident
    confirmed: Confirmed | None = None
    if incident.severity != "critical":  # otherwise it cannot rise
        confirmed = confirmation.confirmed(alerts)
    if confirmed is not None and is_more_severe(confirmed.severity, incident.severity):
        episode.turn_to(confirmed.by)
        episode.notified_kinds.add(confirmed.by.kind)
        incident.severity = confirmed.severity
        episode.report(confirmed.by)
        news = confirmed.by if confirmed.by.kind != episode.kind else None
        return [episode.event("escalated", step, "severity_raised", recent, news=news)]
    late = episode.rows_since_notified >= rules.escalate_later_after
    if _is_far_worse(episode, rules.escalate_later_factor if late else rules.escalate_factor):
        incident.worst = _alert_of_far_worse(episode, alerts)
        return [episode.event("escalated", step, "far_worse", recent)]
    broken = next((measured for measured in alerts if not measured.is_finite), None)
    if broken is not None and _stays_broken(episode, rules.confirm_steps):
        episode.report(broken)
        episode.notified_not_finite = True
        news = broken if broken.kind != episode.kind else None
        rows = episode.not_finite_rows
        return [episode.event("escalated", step, "still_not_finite", recent, news=news, rows=rows)]
    for measured in alerts:
        if _is_new_kind(measured, episode, late=late) and confirmation.is_sure(measured.alert):
            incident.worst = measured.alert
            episode.notified_kinds.add(measured.kind)
            return [episode.event("escalated", step, "new_kind", recent, news=measured)]
    return []


def _is_far_worse(episode: Episode, factor: float) -> bool:
    """Return whether the peak is this many times the one that people were notified of."""
    peak = episode.finite_peak
    if not math.isfinite(peak) or episode.counts_steps:  # a NaN after a NaN is not worse
        return False
    return is_further(peak, episode.notified, episode.kind, factor, episode.normal)


def _alert_of_far_worse(episode: Episode, alerts: Sequence[Measured]) -> Alert:
    """Return the alert of this row to report: one as severe as the incident, or one on its metric.

    A milder alert has the numbers of now; the advice is that for the severity of the incident.
    """
    incident = episode.incident
    as_bad = [measured.alert for measured in alerts if measured.alert.severity == incident.severity]
    if as_bad:
        return as_bad[0]
    own = [measured.alert for measured in alerts if measured.kind == episode.kind]
    return own[0] if own else alerts[0].alert


def _stays_broken(episode: Episode, rows: int) -> bool:
    """Return whether people must hear that it was more than one value that was not finite."""
    return not episode.notified_not_finite and episode.not_finite_rows >= rows


def _is_new_kind(measured: Measured, episode: Episode, *, late: bool) -> bool:
    # Several detectors of one explosion are no news, unless a long time has passed.
    other = late and measured.alert.detector not in episode.notified_detectors
    is_news = measured.kind not in episode.notified_kinds or other
    return is_news or not measured.names <= episode.notified_names
