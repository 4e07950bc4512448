"""The alerts, checkpoints and rollbacks of a run."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from klarm.detectors import known_detectors
from klarm.incidents import Broken, unsafe_spans
from klarm.server.requests import LARGEST, Query, Whole
from klarm.server.served_run import ServedRun
from klarm.types import Alert, Severity


class BriefAlert(msgspec.Struct):
    """The alert of one detector at one step."""

    detector: str
    signal: str
    severity: str
    step: int
    message: str


class AlertInRun(BriefAlert, kw_only=True):
    """An alert of a run, with all its facts."""

    time: float
    recommendation: str
    metrics: dict[str, float | str]
    decisive: bool
    worse: str
    rolled_back: bool


class Alerts(msgspec.Struct):
    """The alerts of a run; only the latest if there are very many."""

    run: str
    total: int
    truncated: bool
    alerts: list[AlertInRun]


class SavedCheckpoint(msgspec.Struct):
    """A state that the trainer saved."""

    step: int
    time: float
    path: str
    counts: bool
    unsafe: bool


class Checkpoints(msgspec.Struct):
    """The checkpoints of a run."""

    run: str
    checkpoints: list[SavedCheckpoint]


class RollbackInRun(msgspec.Struct):
    """Training went back to `step`: the steps from there to `last` are rolled back."""

    step: int
    last: int
    time: float


class Rollbacks(msgspec.Struct):
    """The rollbacks of a run."""

    run: str
    rollbacks: list[RollbackInRun]


class AlertFilter(Query, frozen=True, rename={"first": "from", "last": "to"}):
    """Which alerts are asked for; the latest if there are more than `limit`."""

    first: Whole = -LARGEST
    last: Whole = LARGEST
    detector: str = ""
    severity: Severity | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


def brief_alert(alert: Alert) -> BriefAlert:
    """Return what an alert says; its signal is its detector if klarm does not have that."""
    signal = _signals().get(alert.detector, alert.detector)
    return BriefAlert(alert.detector, signal, alert.severity, alert.step, alert.message)


@cache
def _signals() -> dict[str, str]:
    return {kind.name: kind.signal for kind in known_detectors()}


def alerts(run: ServedRun, wanted: AlertFilter) -> Alerts:
    """Return alerts of a run in their order."""
    found = run.alerts_between(
        wanted.first,
        wanted.last,
        detectors=[wanted.detector] if wanted.detector else None,
        severity="" if wanted.severity is UNSET else wanted.severity,
    )
    shown = [_alert(*dated) for dated in found.latest(wanted.limit)]
    return Alerts(run.id, len(found), len(found) > len(shown), shown)


def _alert(time: float, counts: bool, alert: Alert) -> AlertInRun:
    return AlertInRun(
        **msgspec.structs.asdict(brief_alert(alert)),
        time=time,
        recommendation=alert.recommendation,
        metrics=alert.metrics,
        decisive=alert.decisive,
        worse=alert.worse,
        rolled_back=not counts,
    )


def checkpoints(run: ServedRun) -> Checkpoints:
    """Return the checkpoints of a run, and which of them are unsafe to resume from."""
    unsafe = unsafe_spans(map(Broken.of_record, run.incidents.values()))
    that_count, found = set(run.fold.checkpoints), []
    for saved in (kept.checkpoint for kept in reversed(run.state.checkpoints)):
        is_unsafe = any(
            first <= saved.step and (end is None or saved.step < end) for first, end in unsafe
        )
        counts = (saved.step, saved.path) in that_count
        that_count.discard((saved.step, saved.path))  # an earlier one was overwritten
        found.append(SavedCheckpoint(saved.step, saved.time, saved.path, counts, unsafe=is_unsafe))
    return Checkpoints(run.id, found[::-1])


def rollbacks(run: ServedRun) -> Rollbacks:
    """Return the rollbacks of a run."""
    return Rollbacks(
        run.id,
        [
            RollbackInRun(back.place.step, back.last, back.place.time)
            for back in run.state.rollbacks
            if back.last is not None
        ],
    )
