"""The overview of all runs, and the details of one run."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import numpy as np

from klarm.delivery import Outbox, Silence, silence_in_words
from klarm.detectors import CATALOGUE
from klarm.journal import Started
from klarm.metrics import METRICS
from klarm.server.index import Index, Notice
from klarm.server.packing import has_value, unpack_floats
from klarm.server.rows import TIMES
from klarm.server.run_view import RunView
from klarm.server.summary import Number, RunSummary, spelt
from klarm.version import __version__


class Progress(msgspec.Struct):
    """The progress of the first reading."""

    done: int
    total: int


class RunInOverview(RunSummary, kw_only=True):
    """One run, with sparklines of its main metrics."""

    sparklines: dict[str, list[float | None]] = msgspec.field(default_factory=dict)


class Overview(msgspec.Struct):
    """All runs, the worst first."""

    cursor: int
    folder: str
    indexing: Progress | None
    runs: list[RunInOverview]


class MetricInRun(msgspec.Struct):
    """A metric that a run logs."""

    name: str
    meaning: str
    key: str
    signal: str
    count: int
    first_step: int | None
    last_step: int | None
    min: float | None
    max: float | None
    last: Number | None
    last_time: float | None
    non_finite: int


class Process(msgspec.Struct):
    """A process that started or resumed the run."""

    started: float
    klarm: str
    host: str
    framework: str
    step: int | None


class SilenceInForce(msgspec.Struct):
    """A signal whose notifications are held back for now."""

    signal: str
    by: str
    until_step: int | None
    until_time: float | None
    even_critical: bool
    text: str


class RunDetail(RunSummary, kw_only=True):
    """Everything about a run, except its curves and incidents."""

    cursor: int
    metrics: list[MetricInRun]
    processes: list[Process]
    silences: list[SilenceInForce]
    notices: list[str]


class IndexFile(msgspec.Struct):
    """Where the index is stored."""

    place: str
    bytes: int


class Status(msgspec.Struct):
    """The state of the server."""

    klarm: str
    folder: str
    runs: int
    cursor: int
    server: str
    index: IndexFile
    notices: list[Notice]


_SIGNALS = {kind.watches[0]: kind.signal for kind in reversed(CATALOGUE) if not kind.watches_all}


_decode_summary = msgspec.json.Decoder(RunInOverview).decode
_decode_sparklines = msgspec.json.Decoder(dict[str, list[float | None]]).decode


def overview(index: Index, ids: list[str], *, with_sparklines: bool) -> Overview:
    """Return all runs, or those with the given ids."""
    cursor, progress = index.changes.cursor, index.indexing()
    drawn = "sparklines" if with_sparklines else "NULL"
    query = f"SELECT summary, {drawn} FROM runs WHERE summary IS NOT NULL "
    if ids:
        query += f"AND id IN ({', '.join('?' * len(ids))}) "
    with index.reading() as database:
        found = database.execute(query + "ORDER BY rank, last_seen DESC, id", ids).fetchall()
    runs = []
    for summary, curves in found:
        run = _decode_summary(summary)
        if curves is not None:
            run.sparklines = _decode_sparklines(curves)
        runs.append(run)
    shown = index.root.name or str(index.root)
    return Overview(cursor, shown, Progress(*progress) if progress else None, runs)


def run_detail(index: Index, run: RunView) -> RunDetail:
    """Return the details of one run."""
    return RunDetail(
        **{name: getattr(run.summary, name) for name in RunSummary.__struct_fields__},
        cursor=index.changes.cursor,
        metrics=metrics_of(run),
        processes=_processes(run),
        silences=[_shown(silence) for silence in silences_in_force(run)],
        # Damaged lines are both in the index and among the notices.
        notices=list(
            dict.fromkeys(
                [
                    *run.index.damages.named,
                    *(notice.text for notice in index.notices if notice.run == run.id),
                ]
            )
        ),
    )


def silences_in_force(run: RunView) -> list[Silence]:
    """Return the silences of a run that are in force."""
    try:
        outbox = Outbox(run.folder)
        outbox.refresh()
        return outbox.in_force(time.time())
    except OSError:
        return []


def metrics_of(run: RunView) -> list[MetricInRun]:
    """Return the metrics of a run; those that klarm knows come first."""
    names = run.metric_names()
    found = {
        metric: rest
        for metric, *rest in run.database.execute(
            "SELECT e.metric, sum(e.finite), sum(e.not_finite), min(e.low), max(e.high), "
            "min(b.low_step), max(b.high_step) "
            "FROM extremes e JOIN blocks b USING (run, first_row) "
            "WHERE e.run = ? GROUP BY e.metric",
            (run.number,),
        )
    }
    origins = run.index.fold.origins
    listed = []
    for name, number in names.items():
        if number not in found:  # all of its values were rolled back
            continue
        finite, broken, low, high, first, last = found[number]
        listed.append(
            MetricInRun(
                name=name,
                meaning=METRICS[name].meaning if name in METRICS else "",
                key=origins[name].key if name in origins else name,
                signal=_SIGNALS.get(name, ""),
                count=finite + broken,
                first_step=first,
                last_step=last,
                min=low,
                max=high,
                **_last_value(run, number),
                non_finite=broken,
            )
        )
    return listed


def status(index: Index) -> Status:
    """Return the state of the server."""
    with index.reading() as database:
        (runs,) = database.execute("SELECT count(*) FROM runs").fetchone()
    return Status(
        klarm=__version__,
        folder=index.root.name or str(index.root),
        runs=runs,
        cursor=index.changes.cursor,
        server=index.changes.server,
        index=IndexFile(index.database.place, index.database.size()),
        notices=list(index.notices),
    )


def _last_value(run: RunView, metric: int) -> dict[str, Any]:
    """Return the last value of a metric, and when it was logged."""
    found = run.database.execute(
        "SELECT first_row, data FROM packs WHERE run = ? AND metric = ? "
        "ORDER BY first_row DESC LIMIT 1",
        (run.number, metric),
    ).fetchone()
    if found is None:
        return {"last": None, "last_time": None}
    first_row, data = found
    values = unpack_floats(data)
    row = int(np.flatnonzero(has_value(values))[-1])
    (times,) = run.database.execute(
        "SELECT data FROM packs WHERE run = ? AND metric = ? AND first_row = ?",
        (run.number, TIMES, first_row),
    ).fetchone()
    return {"last": spelt(float(values[row])), "last_time": float(unpack_floats(times)[row])}


def _processes(run: RunView) -> list[Process]:
    found: list[Process] = []
    for stored in run.records("run"):
        started = msgspec.json.decode(stored.line, type=Started)
        step = stored.step if found else None
        found.append(Process(started.started, started.klarm, started.host, started.framework, step))
    return found


def _shown(silence: Silence) -> SilenceInForce:
    return SilenceInForce(**silence._asdict(), text=silence_in_words(silence))
