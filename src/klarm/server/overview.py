"""The overview of all runs, and the details of one run."""

from __future__ import annotations

import msgspec

from klarm.delivery import Silence, silence_in_words
from klarm.detectors import CATALOGUE
from klarm.metrics import METRICS
from klarm.server.index import Index, Notice
from klarm.server.served_run import ServedRun
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


class Status(msgspec.Struct):
    """The state of the server."""

    klarm: str
    folder: str
    runs: int
    cursor: int
    server: str
    notices: list[Notice]


_SIGNALS = {kind.watches[0]: kind.signal for kind in reversed(CATALOGUE) if not kind.watches_all}


def overview(index: Index, ids: list[str], *, with_sparklines: bool) -> Overview:
    """Return all runs, or those with the given ids."""
    cursor, progress = index.changes.cursor, index.indexing()
    runs = [
        RunInOverview(
            **msgspec.structs.asdict(summary), sparklines=run.sparklines if with_sparklines else {}
        )
        for run in index.shown()
        if (summary := run.summary) is not None and (not ids or run.id in ids)
    ]
    shown = index.root.name or str(index.root)
    return Overview(cursor, shown, Progress(*progress) if progress else None, runs)


def run_detail(index: Index, run: ServedRun) -> RunDetail:
    """Return the details of one run."""
    return RunDetail(
        **{name: getattr(run.summary, name) for name in RunSummary.__struct_fields__},
        cursor=index.changes.cursor,
        metrics=metrics_of(index, run),
        processes=_processes(run),
        silences=[_shown(silence) for silence in run.silences()],
        # Damaged lines are both in the journal and among the notices.
        notices=list(
            dict.fromkeys(
                [
                    *run.state.damages.named,
                    *(notice.text for notice in index.notices if notice.run == run.id),
                ]
            )
        ),
    )


def metrics_of(index: Index, run: ServedRun) -> list[MetricInRun]:
    """Return the metrics of a run; those that klarm knows come first."""
    extents, origins = index.rows.extents(run), run.fold.origins
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


def _shown(silence: Silence) -> SilenceInForce:
    return SilenceInForce(**silence._asdict(), text=silence_in_words(silence))
