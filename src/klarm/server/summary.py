"""The summary of a run in the overview."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Iterable

import msgspec
import numpy as np

from klarm.incidents import metric_of, subject_of
from klarm.journal import (
    Activity,
    Fold,
    IncidentRecord,
    RunHealth,
    run_health,
    worst_of,
)
from klarm.monitor import not_watched
from klarm.server.packing import Columns, Floats, has_value, unpack_floats
from klarm.text import as_sentence
from klarm.wording import title

Number = float | str  # NaN and the infinities are text

SHOWN_METRICS = ("kl", "reward", "entropy")


class Worst(msgspec.Struct):
    """The worst open incident of a run."""

    id: str
    number: int
    signal: str
    severity: str
    state: str
    started: int
    title: str
    message: str
    metric: str = ""
    subject: str = ""


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
    worst: Worst | None
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


def summary_of(
    *,
    run_id: str,
    folder: str,
    fold: Fold,
    incidents: Collection[IncidentRecord],
    activity: Activity,
    last_seen: float,
    damaged_lines: int,
    is_cut_off: bool,
    latest: dict[str, Number],
    logged: Iterable[str],
) -> RunSummary:
    """Return the summary of a run, given the fold of its journal."""
    head, worst = fold.head, worst_of(incidents)
    counted = [known for known in incidents if not known.was_rolled_back]
    still_open = [known for known in counted if known.is_open]
    unwatched_because = not_watched(fold, logged, activity)
    return RunSummary(
        id=run_id,
        name=fold.run or folder,
        folder=folder,
        health=run_health(
            fold,
            incidents,
            is_damaged=damaged_lines > 0 or is_cut_off,
            is_watched=not unwatched_because,
        ),
        activity=activity,
        worst=None if worst is None else _shown(worst),
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
        last_seen=last_seen,
        framework=head.framework if head else "",
        host=head.host if head else "",
        klarm=head.klarm if head else "",
        damaged_lines=damaged_lines,
        latest=latest,
        not_watched=as_sentence(unwatched_because),
    )


def _shown(incident: IncidentRecord) -> Worst:
    return Worst(
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


def latest_values(
    database: sqlite3.Connection, run: int, whole: Columns | None = None
) -> dict[str, Number]:
    """Return the last value of each metric of the overview, from `whole` if it is in memory."""
    latest: dict[str, Number] = {}
    for name in SHOWN_METRICS:
        values = _last_values(database, run, name) if whole is None else whole.of(name)
        if values is not None and len(rows := np.flatnonzero(has_value(values))):
            latest[name] = spelt(float(values[rows[-1]]))
    return latest


def metric_names(database: sqlite3.Connection, run: int) -> list[str]:
    """Return the names of all metrics that a run has logged."""
    found = database.execute("SELECT name FROM metrics WHERE run = ?", (run,))
    return [name for (name,) in found]


def _last_values(database: sqlite3.Connection, run: int, name: str) -> Floats | None:
    """Return the values of a metric in the last block that has any."""
    found = database.execute(
        "SELECT data FROM packs WHERE run = ?1 AND metric = "
        "(SELECT metric FROM metrics WHERE run = ?1 AND name = ?2) "
        "ORDER BY first_row DESC LIMIT 1",
        (run, name),
    ).fetchone()
    return None if found is None else unpack_floats(found[0])
