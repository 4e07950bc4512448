"""Everything about one incident, for its page."""

from __future__ import annotations

import msgspec

from klarm.delivery import deliveries
from klarm.incidents import is_alarm
from klarm.journal import IncidentRecord
from klarm.metrics import METRICS
from klarm.runs import Alerts
from klarm.server.arithmetic import Arithmetic, arithmetic_of, arithmetic_of_others
from klarm.server.incidents import IncidentInRun, ShownIncidents
from klarm.server.index import Index
from klarm.server.served_run import ServedRun
from klarm.server.timeline import Moment, timeline
from klarm.types import Event
from klarm.wording import advice

_LOOK_BACK, _LOOK_AHEAD = 100, 20  # rows to draw around an incident


class RunOfIncident(msgspec.Struct):
    """The run that an incident belongs to."""

    id: str
    name: str
    activity: str
    last_step: int | None


class AlertCounts(msgspec.Struct):
    """How many alerts an incident has, in total and by detector."""

    total: int
    by_detector: dict[str, int]


class Moved(msgspec.Struct, rename={"first": "from", "last": "to"}):
    """What else moved up to an event of the incident, and the steps to draw."""

    event: str
    step: int
    text: str
    metrics: list[str]
    first: int
    last: int


class Diagnosis(msgspec.Struct):
    """The pattern of the playbook that fits what moved up to an event of the incident."""

    event: str
    step: int
    pattern: str
    cause: str
    remedy: str
    page: str = "playbook"


class GoodCheckpoint(msgspec.Struct):
    """The checkpoint to go back to."""

    step: int | None
    path: str


class DeliveredEvent(msgspec.Struct):
    """An event that a message is about."""

    event: str
    step: int


class DeliveryOfIncident(msgspec.Struct):
    """The outcome of a message on a channel; `event` and `step` are those of its last event."""

    channel: str
    event: str
    step: int
    events: list[DeliveredEvent]
    time: float
    outcome: str
    outcome_text: str
    attempts: int
    reason: str


class IncidentDetail(IncidentInRun, kw_only=True):
    """Everything about one incident."""

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


def incident_detail(run: ServedRun, id_: str) -> IncidentDetail:
    """Return everything about an incident, or raise ApiError."""
    known = run.incident(id_)
    shown = ShownIncidents(run).of(known)
    events = run.events_of(known.id) or [known.opened]
    alarms = [event for event in reversed(events) if is_alarm(event)]  # later events repeat them
    alarm = next(iter(alarms), known.opened)
    diagnosed = next((event for event in alarms if event.pattern), alarm)
    alerts = _alerts_of(run, known)
    arithmetic = arithmetic_of(run, known, alarm)
    return IncidentDetail(
        **msgspec.structs.asdict(shown),
        run=RunOfIncident(run.id, run.summary.name, run.summary.activity, run.summary.last_step),
        timeline=timeline(run, known),
        arithmetic=arithmetic,
        arithmetic_of_others=arithmetic_of_others(
            run, known, alarm, arithmetic.detector if arithmetic else ""
        ),
        alerts=AlertCounts(len(alerts), alerts.by_detector()),
        moved=_moved(run, known, next((e for e in reversed(events) if e.also), alarm)),
        diagnosis=(
            Diagnosis(
                *(diagnosed.event, diagnosed.step),
                *(diagnosed.pattern, diagnosed.cause, diagnosed.remedy),
            )
            if diagnosed.pattern
            else None
        ),
        advice=advice(known.last, diagnosed),
        checkpoint=_checkpoint(run, next((e for e in alarms if e.checkpoint), alarm)),
        deliveries=_deliveries(run, known),
    )


def incident_of_any_run(index: Index, id_: str) -> IncidentDetail:
    """Return everything about an incident, whichever run it belongs to, or raise ApiError."""
    return incident_detail(index.run_with(id_), id_)


def _alerts_of(run: ServedRun, incident: IncidentRecord) -> Alerts:
    """Return the alerts of an incident, matched by step and detector."""
    last = incident.last.step if incident.state == "resolved" else None
    return run.alerts_between(incident.last.started, last, detectors=incident.last.detectors)


def _moved(run: ServedRun, incident: IncidentRecord, event: Event) -> Moved:
    onset = incident.opened.onset
    begin = incident.last.started if onset is None else min(onset, incident.last.started)
    columns = run.columns
    return Moved(
        event.event,
        event.step,
        event.moved,
        [name for name in dict.fromkeys(m.metric for m in event.also) if name in METRICS],
        columns.step_beside(begin, -_LOOK_BACK),
        columns.step_beside(event.step, _LOOK_AHEAD),
    )


def _checkpoint(run: ServedRun, event: Event) -> GoodCheckpoint | None:
    if not event.checkpoint:
        return None
    saved = (kept.checkpoint for kept in run.state.checkpoints)
    steps = [found.step for found in saved if found.path == event.checkpoint]
    return GoodCheckpoint(steps[-1] if steps else None, event.checkpoint)


def _deliveries(run: ServedRun, incident: IncidentRecord) -> list[DeliveryOfIncident]:
    own = (entry for entry in run.deliveries if entry.id == incident.id)
    return [
        DeliveryOfIncident(
            channel=last.channel,
            event=last.event,
            step=last.step,
            events=[DeliveredEvent(entry.event, entry.step) for entry in covered],
            time=last.time,
            outcome=last.outcome,
            outcome_text="rejected" if last.outcome == "refused" else last.outcome,
            attempts=last.attempts,
            reason=last.reason,
        )
        for covered in deliveries.by_message(own)
        for last in covered[-1:]
    ]
