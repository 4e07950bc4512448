"""The summary of a run in the overview."""

from __future__ import annotations

import math

import msgspec

from klarm.incidents import metric_of, subject_of
from klarm.journal import Activity, IncidentRecord, RunHealth
from klarm.metrics import to_number
from klarm.runs import SHOWN_METRICS, RunView
from klarm.store import shown
from klarm.text import as_sentence
from klarm.wording import title

Number = float | str  # NaN and the infinities are text


class BriefIncident(msgspec.Struct):
    """An incident in a few words."""

    id: str
    number: int
    signal: str
    severity: str
    state: str
    started: int
    title: str
    message: str
    metric: str
    subject: str


class Counts(msgspec.Struct):
    """How many incidents a run has; `critical` and `warning` count only open ones."""

    total: int = 0
    open: int = 0
    critical: int = 0
    warning: int = 0


class RunSummary(msgspec.Struct, kw_only=True):
    """One run in a few numbers."""

    id: str
    name: str
    folder: str
    health: RunHealth
    activity: Activity
    worst: BriefIncident | None
    incidents: Counts
    steps: int
    first_step: int | None
    last_step: int | None
    rolled_back: int
    started: float
    last_seen: float
    framework: str
    host: str
    klarm: str
    damaged_lines: int
    latest: dict[str, Number]
    not_watched: str = ""  # a sentence, if no detector knows any of its metrics


def spelt(value: float) -> Number:
    """Return a number for JSON, as text if it is not finite.

    >>> spelt(0.5), spelt(float("nan")), spelt(float("-inf"))
    (0.5, 'NaN', '-Infinity')
    """
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def summary_of(run: RunView, id_: str) -> RunSummary:
    """Return the summary of a run."""
    fold, head, worst = run.fold, run.fold.head, run.worst
    counted = [known for known in run.incidents.values() if not known.was_rolled_back]
    still_open = [known for known in counted if known.is_open]
    folder = shown(run.run) or run.folder.name
    latest = {name: to_number(run.latest.get(name)) for name in SHOWN_METRICS}
    return RunSummary(
        id=id_,
        name=fold.run or folder,
        folder=folder,
        health=run.health,
        activity=run.activity,
        worst=None if worst is None else brief_incident(worst),
        incidents=Counts(
            total=len(counted),
            open=len(still_open),
            critical=sum(known.severity == "critical" for known in still_open),
            warning=sum(known.severity == "warning" for known in still_open),
        ),
        steps=fold.steps,
        first_step=fold.first_step,
        last_step=fold.last_step,
        rolled_back=fold.rolled_back,
        started=fold.began,
        last_seen=run.state.last_seen,
        framework=head.framework if head else "",
        host=head.host if head else "",
        klarm=head.klarm if head else "",
        damaged_lines=run.damaged,
        latest={name: spelt(value) for name, value in latest.items() if value is not None},
        not_watched=as_sentence(run.not_watched),
    )


def brief_incident(incident: IncidentRecord) -> BriefIncident:
    """Return an incident in a few words."""
    return BriefIncident(
        id=incident.id,
        number=incident.number,
        signal=incident.signal,
        severity=incident.severity,
        state=incident.state,
        started=incident.last.started,
        title=title(incident.last),
        message=incident.last.message,
        metric=metric_of(incident.last),
        subject=subject_of(incident),
    )
