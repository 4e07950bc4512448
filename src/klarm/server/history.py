"""The alerts, checkpoints and rollbacks of a run."""

from __future__ import annotations

from functools import cache

import msgspec

from klarm.detectors import known_detectors
from klarm.incidents import Broken, unsafe_spans
from klarm.journal import Checkpoint
from klarm.server.run_view import RunView, StoredRecord
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


def alerts(run: RunView, wanted: AlertFilter) -> Alerts:
    """Return alerts of a run in their order."""
    conditions, values = "", list[object]()
    for condition, value in (
        ("AND step >= ? ", wanted.first),
        ("AND step <= ? ", wanted.last),
        ("AND detector = ? ", wanted.detector or None),
        ("AND severity = ? ", wanted.severity or None),
    ):
        if value is not None:
            conditions += condition
            values.append(value)
    (total,) = run.database.execute(
        f"SELECT count(*) FROM records WHERE run = ? AND kind = 'alert' {conditions}",
        (run.number, *values),
    ).fetchone()
    found = list(
        run.records("alert", f"{conditions} ORDER BY number DESC LIMIT ?", *values, wanted.limit)
    )
    return Alerts(run.id, total, total > len(found), [_alert(stored) for stored in found[::-1]])


def _alert(stored: StoredRecord) -> AlertInRun:
    alert = msgspec.json.decode(stored.line, type=Alert)
    return AlertInRun(
        detector=alert.detector,
        signal=signal_of(alert.detector),
        severity=alert.severity,
        step=alert.step,
        time=stored.time,
        message=alert.message,
        recommendation=alert.recommendation,
        metrics=alert.metrics,
        decisive=alert.decisive,
        worse=alert.worse,
        rolled_back=not stored.counts,
    )


def checkpoints(run: RunView) -> Checkpoints:
    """Return the checkpoints of a run, and which of them are unsafe to resume from."""
    unsafe = unsafe_spans(map(Broken.of_record, run.incidents.values()))
    found = []
    for stored in run.records("checkpoint"):
        saved = msgspec.json.decode(stored.line, type=Checkpoint)
        is_unsafe = any(
            first <= saved.step and (end is None or saved.step < end) for first, end in unsafe
        )
        found.append(
            SavedCheckpoint(saved.step, saved.time, saved.path, stored.counts, unsafe=is_unsafe)
        )
    return Checkpoints(run.id, found)


def rollbacks(run: RunView) -> Rollbacks:
    """Return the rollbacks of a run."""
    decode = msgspec.json.Decoder(RollbackInRun).decode
    return Rollbacks(run.id, [decode(stored.line) for stored in run.records("rollback")])
