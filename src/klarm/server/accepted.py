"""Levels that people have accepted as normal: from there on, a detector measures by them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from klarm.server.run_view import RunView
from klarm.types import Alert, Command


class Accepted(NamedTuple):
    """Somebody said at a step that what was logged since an earlier one is normal."""

    since: int
    step: int


def accepted_levels(run: RunView, signal: str) -> list[Accepted]:
    """Return what was accepted on a signal, in order, as `incidents.Tracker.apply` takes it."""
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
    """Return the step of the last alert of some detectors before a step."""
    latest = run.records("alert", "AND step < ? AND counts ORDER BY number DESC", before)
    alerts = (msgspec.json.decode(stored.line, type=Alert) for stored in latest)
    return next((alert.step for alert in alerts if alert.detector in detectors), -1)
