"""Levels that people have accepted as normal: from then on, detectors use them as the baseline."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from klarm.server.run_view import RunView
from klarm.types import Alert, Command


class Accepted(NamedTuple):
    """At `step`, somebody accepted the values logged since the step `since` as normal."""

    since: int
    step: int


def accepted_levels(run: RunView, signal: str) -> list[Accepted]:
    """Return the accepted levels of a signal in order, as `incidents.Tracker.apply` sees them."""
    found = []
    for stored in run.records("command"):
        command = msgspec.json.decode(stored.line, type=Command)
        incident = run.incidents.get(command.incident)
        if command.command == "accept" and incident is not None and incident.signal == signal:
            settled = [
                event.step
                for kept, event in run.events(incident.id)
                if kept.number < stored.number and event.event == "settled"
            ]
            since = incident.opened.step
            if settled:
                since = _last_alert(run, incident.last.detectors, stored.step) + 1
            found.append(Accepted(since, stored.step))
    return found


def _last_alert(run: RunView, detectors: list[str], before: int) -> int:
    """Return the step of the last alert of the detectors before a step; -1 if there is none."""
    latest = run.records("alert", "AND step < ? AND counts ORDER BY number DESC", before)
    alerts = (msgspec.json.decode(stored.line, type=Alert) for stored in latest)
    return next((alert.step for alert in alerts if alert.detector in detectors), -1)
