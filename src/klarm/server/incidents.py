"""The incidents of a run, and all there is to say of one."""

from __future__ import annotations

import re
from collections import Counter
from typing import get_args

import msgspec

from klarm.delivery import Delivered, deliveries
from klarm.incidents import advice, headline, is_alarm, metric_of, title, why
from klarm.journal import Checkpoint, IncidentRecord
from klarm.metrics import METRICS
from klarm.server.arithmetic import Arithmetic, arithmetic_of, arithmetic_of_others
from klarm.server.false_alarms import FalseAlarm, marked
from klarm.server.overview import silences_in_force
from klarm.server.run_view import RunView
from klarm.server.summary import Number
from klarm.server.timeline import Moment, timeline
from klarm.types import Alert, Blip, Event, Reason

_LOOK_BACK, _LOOK_AHEAD = 100, 20  # steps to draw around an incident


class Mark(msgspec.Struct):
    """Somebody says that an incident was none."""

    by: str
    time: float
    note: str


class WaitingCommand(msgspec.Struct):
    """What somebody asked for, and the run has not applied yet."""

    command: str
    by: str
    time: float


class IncidentInRun(msgspec.Struct, kw_only=True):
    """One incident, as it stands."""

    id: str
    number: int
    signal: str
    metric: str
    severity: str
    state: str
    state_text: str
    is_open: bool
    reason: str
    title: str
    headline: str
    message: str
    why: str
    started: int
    started_time: float | None
    onset: int | None
    opened: int
    opened_time: float | None
    ended: int | None
    ended_time: float | None
    last_step: int
    detectors: list[str]
    peak: Number
    worse: str
    level: float | None
    before: float | None
    follows: str
    by: str
    acknowledged_by: list[str]
    silenced: bool
    false_alarm: Mark | None
    commands_pending: list[WaitingCommand]


class BlipInRun(msgspec.Struct):
    """An incident that never opened."""

    signal: str
    severity: str
    started: int
    step: int
    detectors: list[str]
    peak: Number
    rolled_back: bool


class Incidents(msgspec.Struct):
    """The incidents of a run."""

    run: str
    incidents: list[IncidentInRun]
    blips: list[BlipInRun]


class RunOfIncident(msgspec.Struct):
    """The run that an incident belongs to."""

    id: str
    name: str
    activity: str
    last_step: int | None


class AlertCounts(msgspec.Struct):
    """How many alerts an incident has, and of whom."""

    total: int
    by_detector: dict[str, int]


class Moved(msgspec.Struct, rename={"first": "from", "last": "to"}):
    """What else moved, and the steps to draw."""

    text: str
    metrics: list[str]
    first: int
    last: int


class Diagnosis(msgspec.Struct):
    """The pattern of the playbook that fits."""

    pattern: str
    cause: str
    remedy: str
    page: str = "playbook"


class GoodCheckpoint(msgspec.Struct):
    """Where to go back to."""

    step: int | None
    path: str


class DeliveryOfIncident(msgspec.Struct):
    """What became of an event on a channel."""

    channel: str
    event: str
    step: int
    time: float
    outcome: str
    outcome_text: str
    attempts: int
    reason: str


class IncidentDetail(IncidentInRun, kw_only=True):
    """All there is to say of one incident."""

    run: RunOfIncident
    timeline: list[Moment]
    arithmetic: Arithmetic | None
    arithmetic_of_others: list[Arithmetic]
    alerts: AlertCounts
    moved: Moved
    diagnosis: Diagnosis | None
    advice: list[str]
    checkpoint: GoodCheckpoint | None
    deliveries: list[DeliveryOfIncident]


def incidents(run: RunView) -> Incidents:
    """Return the incidents of a run in the order in which they opened."""
    marks = marked(run.folder)
    silent = {(known.signal, known.even_critical) for known in silences_in_force(run)}
    return Incidents(
        run.id,
        [_shown(run, known, marks, silent) for known in run.incidents.values()],
        [
            BlipInRun(
                *(blip.signal, blip.severity, blip.started, blip.step),
                *(blip.detectors, blip.peak, not stored.counts),
            )
            for stored in run.records("blip")
            for blip in [msgspec.json.decode(stored.line, type=Blip)]
        ],
    )


def incident_detail(run: RunView, id_: str) -> IncidentDetail:
    """Return all there is to say of an incident, or raise ApiError."""
    known = run.incident(id_)
    marks = marked(run.folder)
    silent = {(found.signal, found.even_critical) for found in silences_in_force(run)}
    shown = _shown(run, known, marks, silent)
    events = [event for _, event in run.events(known.id)] or [known.opened]
    alarm = next((event for event in reversed(events) if is_alarm(event)), known.opened)
    diagnosed = next((event for event in reversed(events) if event.pattern), alarm)
    alerts = _alerts_of(run, known)
    arithmetic = arithmetic_of(alarm, alerts)
    return IncidentDetail(
        **{name: getattr(shown, name) for name in IncidentInRun.__struct_fields__},
        run=RunOfIncident(run.id, run.summary.name, run.summary.activity, run.summary.last_step),
        timeline=timeline(run, known),
        arithmetic=arithmetic,
        arithmetic_of_others=arithmetic_of_others(
            alarm, alerts, arithmetic.detector if arithmetic else ""
        ),
        alerts=AlertCounts(len(alerts), dict(Counter(alert.detector for alert in alerts))),
        moved=_moved(run, known, next((e for e in reversed(events) if e.moved), alarm)),
        diagnosis=(
            Diagnosis(diagnosed.pattern, diagnosed.cause, diagnosed.remedy)
            if diagnosed.pattern
            else None
        ),
        advice=advice(known.last, diagnosed),
        checkpoint=_checkpoint(run, next((e for e in reversed(events) if e.checkpoint), alarm)),
        deliveries=_deliveries(run, known),
    )


def _shown(
    run: RunView,
    incident: IncidentRecord,
    marks: dict[str, FalseAlarm],
    silent: set[tuple[str, bool]],
) -> IncidentInRun:
    last, opened = incident.last, incident.opened
    ended = incident.state == "resolved"
    mark = marks.get(incident.id)
    waiting = [command for command in run.waiting_commands if command.incident == incident.id]
    acknowledged = [
        command.by
        for command in run.commands
        if command.command == "ack" and command.incident == incident.id
    ]
    return IncidentInRun(
        id=incident.id,
        number=incident.number,
        signal=incident.signal,
        metric=metric_of(last),
        severity=incident.severity,
        state=incident.state,
        state_text=_state_text(incident, run.summary.activity == "training"),
        is_open=incident.is_open,
        reason=incident.reason,
        title=title(last),
        headline=headline(last),
        message=last.message,
        why=why(last),
        started=last.started,
        started_time=run.time_of(last.started),
        onset=opened.onset,
        opened=opened.step,
        opened_time=run.time_of(opened.step),
        ended=last.step if ended else None,
        ended_time=run.time_of(last.step) if ended else None,
        last_step=last.step,
        detectors=last.detectors,
        peak=last.peak,
        worse=last.worse,
        level=last.level,
        before=last.before,
        follows=last.follows or opened.follows,
        by=last.by,
        acknowledged_by=list(dict.fromkeys([*incident.acknowledged_by, *acknowledged])),
        silenced=incident.is_open
        and any(
            signal == incident.signal and (even_critical or incident.severity != "critical")
            for signal, even_critical in silent
        ),
        false_alarm=None if mark is None else Mark(mark.by, mark.time, mark.note),
        commands_pending=[WaitingCommand(c.command, c.by, c.time) for c in waiting],
    )


def _state_text(incident: IncidentRecord, trains: bool) -> str:
    """Say where an incident is, or how it was resolved."""
    if incident.state != "resolved":
        return incident.state if trains else "ended"
    if incident.was_rolled_back:
        return "undone"
    if incident.reason in get_args(Reason):
        return incident.reason.replace("_", " ")
    return "resolved" if incident.last.recovered else "not recovered"  # format 1


def _alerts_of(run: RunView, incident: IncidentRecord) -> list[Alert]:
    """Return the alerts that an incident is made of, as far as their step and detector tell."""
    last = incident.last.step if incident.state == "resolved" else run.summary.last_step
    found = run.records(
        "alert",
        "AND step BETWEEN ? AND ? ORDER BY number",
        incident.last.started,
        incident.last.step if last is None else max(last, incident.last.step),
    )
    alerts = (msgspec.json.decode(stored.line, type=Alert) for stored in found)
    return [alert for alert in alerts if alert.detector in incident.last.detectors]


def _moved(run: RunView, incident: IncidentRecord, event: Event) -> Moved:
    names = dict.fromkeys(word for word in re.findall(r"\w+", event.moved) if word in METRICS)
    onset = incident.opened.onset
    begin = incident.last.started if onset is None else min(onset, incident.last.started)
    first, last = run.summary.first_step or 0, run.summary.last_step
    end = incident.opened.step + _LOOK_AHEAD
    return Moved(
        event.moved,
        list(names),
        max(first, begin - _LOOK_BACK),
        end if last is None else max(first, min(end, last)),
    )


def _checkpoint(run: RunView, event: Event) -> GoodCheckpoint | None:
    if not event.checkpoint:
        return None
    saved = (msgspec.json.decode(s.line, type=Checkpoint) for s in run.records("checkpoint"))
    steps = [found.step for found in saved if found.path == event.checkpoint]
    return GoodCheckpoint(steps[-1] if steps else None, event.checkpoint)


def _deliveries(run: RunView, incident: IncidentRecord) -> list[DeliveryOfIncident]:
    try:
        entries = [entry for _, entry in deliveries.read(run.folder)]
    except OSError:
        return []
    return [
        DeliveryOfIncident(
            channel=entry.channel,
            event=entry.event,
            step=entry.step,
            time=entry.time,
            outcome=entry.outcome,
            outcome_text="rejected" if entry.outcome == "refused" else entry.outcome,
            attempts=entry.attempts,
            reason=entry.reason,
        )
        for entry in entries
        if isinstance(entry, Delivered) and entry.id == incident.id
    ]
