"""The alerts, checkpoints and rollbacks of a run."""

from __future__ import annotations

from functools import cache

import msgspec

from klarm.detectors import known_detectors
from klarm.incidents import Broken, unsafe_spans
from klarm.server.served_run import ServedRun
from klarm.types import Alert


class AlertInRun(msgspec.Struct):
    """The alert of one detector at one step."""

    detector: str
    signal: str
    severity: str
    step: int
    time: float
    message: str
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


class AlertFilter(msgspec.Struct, frozen=True):
    """Which alerts are asked for."""

    first: int | None
    last: int | None
    detector: str
    severity: str
    limit: int


def signal_of(detector: str) -> str:
    """Return the signal of a detector; if klarm does not have the detector, its name."""
    return _signals().get(detector, detector)


@cache
def _signals() -> dict[str, str]:
    return {kind.name: kind.signal for kind in known_detectors()}


def alerts(run: ServedRun, wanted: AlertFilter) -> Alerts:
    """Return alerts of a run in their order."""
    found = run.alerts_between(
        wanted.first,
        wanted.last,
        detectors=[wanted.detector] if wanted.detector else None,
        severity=wanted.severity,
    )
    shown = [_alert(*dated) for dated in found.latest(wanted.limit)]
    return Alerts(run.id, len(found), len(found) > len(shown), shown)


def _alert(time: float, counts: bool, alert: Alert) -> AlertInRun:
    return AlertInRun(
        detector=alert.detector,
        signal=signal_of(alert.detector),
        severity=alert.severity,
        step=alert.step,
        time=time,
        message=alert.message,
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
