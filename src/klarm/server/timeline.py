"""The timeline of an incident: its first alert, its events, and commands."""

from __future__ import annotations

import msgspec

from klarm.journal import IncidentRecord
from klarm.server.run_view import RunView
from klarm.types import Alert, Command
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


def timeline(run: RunView, incident: IncidentRecord) -> list[Moment]:
    """Return what happened to an incident, in order."""
    ordered: list[tuple[int, Moment]] = []
    for stored in run.records("alert", "AND step = ? ORDER BY number", incident.last.started):
        alert = msgspec.json.decode(stored.line, type=Alert)
        if alert.detector in incident.last.detectors:
            first = f"First alert: {alert.detector}."
            ordered.append(
                (
                    stored.number,
                    Moment(
                        *("pending", alert.step, stored.time, alert.severity, ""),
                        *(first, alert.message, alert.detector),
                    ),
                )
            )
            break
    for stored, event in run.events(incident.id):
        alarm = event.event in ("opened", "escalated")
        message = event.message if alarm else ""
        ordered.append(
            (
                stored.number,
                Moment(
                    *(event.event, event.step, stored.time, event.severity),
                    *(event.reason, why(event), message, event.detector),
                ),
            )
        )
    applied = set()
    for stored in run.records("command", "AND incident = ? ORDER BY number", incident.id):
        command = msgspec.json.decode(stored.line, type=Command)
        applied.add(command.key)
        ordered.append((stored.number, _of_command(command, incident, stored.step)))
    moments = [moment for _, moment in sorted(ordered, key=lambda pair: pair[0])]
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
