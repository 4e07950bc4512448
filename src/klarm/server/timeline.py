"""The timeline of an incident: its first alert, its events, and commands."""

from __future__ import annotations

import msgspec

from klarm.incidents import is_alarm
from klarm.journal import IncidentRecord
from klarm.server.served_run import ServedRun
from klarm.types import Command
from klarm.wording import why

_SENTENCES = {
    "ack": "Acknowledged by {by}.",
    "ack_off": "{by} took the acknowledgement back.",
    "close": "{by} asked to close it.",
    "accept": "{by} asked to accept its level as normal.",
}


class Moment(msgspec.Struct):
    """Something that happened to an incident."""

    event: str
    step: int
    time: float | None
    severity: str
    reason: str
    text: str
    message: str
    detector: str


def timeline(run: ServedRun, incident: IncidentRecord) -> list[Moment]:
    """Return what happened to an incident, in order."""
    begin, detectors = incident.last.started, incident.last.detectors
    moments = [
        Moment(
            *("pending", alert.step, time, alert.severity, ""),
            *(f"First alert: {alert.detector}.", alert.message, alert.detector),
        )
        for time, _, alert in run.alerts_between(begin, begin, detectors=detectors).latest(1000)[:1]
    ]
    ordered = [
        (
            told.place.begin,
            Moment(
                *(event.event, event.step, told.place.time, event.severity, event.reason),
                *(why(event), event.message if is_alarm(event) else "", event.detector),
            ),
        )
        for told in run.state.events
        if (event := told.event).id == incident.id
    ]
    applied = set()
    for place, command in map(msgspec.structs.astuple, run.state.commands):
        if command.incident == incident.id:
            applied.add(command.key)
            ordered.append((place.begin, _of_command(command, incident, place.step)))
    moments += [moment for _, moment in sorted(ordered, key=lambda pair: pair[0])]
    at = run.summary.last_step or 0
    moments += [
        _of_command(command, incident, at)
        for command in run.commands
        if command.incident == incident.id and command.key not in applied
    ]
    return moments


def _of_command(command: Command, incident: IncidentRecord, step: int) -> Moment:
    sentence = _SENTENCES.get(command.command, "{by}: " + command.command + ".")
    return Moment(
        *("command", step, command.time, incident.severity, command.command),
        *(sentence.replace("{by}", command.by), "", ""),
    )
