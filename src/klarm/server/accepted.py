"""Levels that people have accepted as normal: from then on, detectors use them as the baseline."""

from __future__ import annotations

from typing import NamedTuple

from klarm.server.served_run import ServedRun


class Accepted(NamedTuple):
    """At `step`, somebody accepted the values logged since the step `since` as normal."""

    since: int
    step: int


def accepted_levels(run: ServedRun, signal: str) -> list[Accepted]:
    """Return the accepted levels of a signal in order, as `incidents.Tracker.apply` sees them."""
    found = []
    for given in run.state.commands:
        command, at = given.command, given.place
        incident = run.incidents.get(command.incident)
        if command.command == "accept" and incident is not None and incident.signal == signal:
            has_settled = any(
                told.event.id == incident.id and told.event.event == "settled"
                for told in run.state.events
                if told.place.begin < at.begin
            )
            since = incident.opened.step
            if has_settled:
                since = _last_alert(run, incident.last.detectors, at.step) + 1
            found.append(Accepted(since, at.step))
    return found


def _last_alert(run: ServedRun, detectors: list[str], before: int) -> int:
    """Return the step of the last alert of the detectors before a step; -1 if there is none."""
    found = run.alerts_between(None, before - 1, detectors=detectors).that_count()
    return found[-1] if found else -1
