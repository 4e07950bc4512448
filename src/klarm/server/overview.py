"""The overview of all runs, and the details of one run."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from klarm.delivery import silence_in_words
from klarm.detectors import CATALOGUE
from klarm.metrics import METRICS
from klarm.server.index import Index, Notice, Progress
from klarm.server.requests import Names, Query
from klarm.server.served_run import ServedRun
from klarm.server.summary import Number, RunSummary, spelt
from klarm.version import __version__


class RunsToShow(Query, frozen=True):
    """Which runs to show, or all, and whether with sparklines."""

    runs: Annotated[Names, Meta(max_length=1000)] = ()
    sparklines: bool = True


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


class Status(msgspec.Struct):
    """The state of the server."""

    klarm: str
    folder: str
    runs: int
    cursor: int
    server: str
    notices: list[Notice]


_SIGNALS = {kind.watches[0]: kind.signal for kind in reversed(CATALOGUE) if not kind.watches_all}


def overview(index: Index, asked: RunsToShow) -> Overview:
    """Return all runs, or those with the given ids."""
    cursor, progress = index.changes.cursor, index.indexing()
    runs = [
        RunInOverview(
            **msgspec.structs.asdict(summary), sparklines=run.sparklines if asked.sparklines else {}
        )
        for run in index.shown()
        if (summary := run.summary) is not None and (not asked.runs or run.id in asked.runs)
    ]
    shown = index.root.name or str(index.root)
    return Overview(cursor, shown, progress, runs)


def run_detail(run: ServedRun) -> RunDetail:
    """Return the details of one run."""
    return RunDetail(
        **msgspec.structs.asdict(run.summary),
        cursor=run.cursor,
        metrics=_metrics(run),
        processes=_processes(run),
        silences=[
            SilenceInForce(**silence._asdict(), text=silence_in_words(silence))
            for silence in run.silences()
        ],
        # Damaged lines are both in the journal and among the notices.
        notices=list(dict.fromkeys([*run.state.damages.named, *run.notices])),
    )


def _metrics(run: ServedRun) -> list[MetricInRun]:
    """Return the metrics of a run; those that klarm knows come first."""
    extents, origins = run.extents(), run.fold.origins
    return [
        MetricInRun(
            name=name,
            meaning=METRICS[name].meaning if name in METRICS else "",
            key=origins[name].key if name in origins else name,
            signal=_SIGNALS.get(name, ""),
            count=found.values,
            first_step=found.first_step,
            last_step=found.last_step,
            min=found.low,
            max=found.high,
            last=spelt(found.last),
            last_time=found.last_time,
            non_finite=found.non_finite,
        )
        for name in run.metric_names()
        if (found := extents.get(name)) is not None  # otherwise, all its values were rolled back
    ]


def status(index: Index) -> Status:
    """Return the state of the server."""
    return Status(
        klarm=__version__,
        folder=index.root.name or str(index.root),
        runs=len(index.watch.runs),
        cursor=index.changes.cursor,
        server=index.changes.server,
        notices=list(index.notices),
    )


def _processes(run: ServedRun) -> list[Process]:
    return [
        Process(
            *(known.started.started, known.started.klarm, known.started.host),
            *(known.started.framework, known.place.step if number else None),
        )
        for number, known in enumerate(run.state.processes)
    ]
