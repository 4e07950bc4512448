"""The routes of the API: one table that routes, checks parameters and describes itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from klarm.server import actions, configs, curves, export, history, incidents, overview, what_if
from klarm.server.blocks import Axis
from klarm.server.index import Index
from klarm.server.parameters import Arguments, Parameter
from klarm.server.problems import not_found
from klarm.server.run_view import RunView
from klarm.types import SEVERITIES

PREFIX = "/api/v1"
Handler = Callable[[Index, Arguments], object]


@dataclass(frozen=True)
class Route:
    """One request that the API answers."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str  # below PREFIX
    about: str
    handler: Handler
    answer: Any  # the type of what the handler returns
    parameters: tuple[Parameter, ...] = ()
    body: type[Any] | None = None
    problems: tuple[int, ...] = field(default=())


@dataclass(frozen=True)
class File:
    """An answer that is a file to save."""

    name: str
    kind: str
    content: bytes | Callable[[], Any]  # or what yields it in pieces


_RUN = Parameter("run", "a run's id", in_path=True)
_INCIDENT = Parameter("incident", "an incident's id", in_path=True)
_WIDTH = Parameter("width", "pixels", "integer", 800, 1, 10_000)
_FROM = Parameter("from", "where the range begins", "number")
_TO = Parameter("to", "where the range ends", "number")
_AXIS = Parameter("axis", "step or time", default="step", choices=get_args(Axis))
_FIRST_STEP = Parameter("from", "the first step", "integer")
_LAST_STEP = Parameter("to", "the last step", "integer")


def _of_run(answer: Callable[[RunView, Arguments], object]) -> Handler:
    """Return a handler that finds the run first."""

    def handler(index: Index, arguments: Arguments) -> object:
        with index.run(arguments.text("run")) as run:
            return answer(run, arguments)

    return handler


def _acting(answer: Callable[[RunView, Arguments], object]) -> Handler:
    """Return a handler that has the index look at once at what was written."""
    of_run = _of_run(answer)

    def handler(index: Index, arguments: Arguments) -> object:
        done = of_run(index, arguments)
        index.watch.nudge()
        return done

    return handler


def _runs(index: Index, arguments: Arguments) -> object:
    return overview.overview(
        index, arguments.names("runs"), with_sparklines=arguments.flag("sparklines")
    )


def _run(index: Index, arguments: Arguments) -> object:
    with index.run(arguments.text("run")) as run:
        return overview.run_detail(index, run)


def _range(arguments: Arguments) -> curves.Range:
    axis: Axis = "time" if arguments.text("axis") == "time" else "step"
    return curves.Range(
        axis,
        arguments.optional_number("from"),
        arguments.optional_number("to"),
        arguments.integer("width"),
    )


def _series(index: Index, arguments: Arguments) -> object:
    cursor = index.changes.cursor
    with index.run(arguments.text("run")) as run:
        return curves.series(run, cursor, arguments.names("metrics"), _range(arguments))


def _alerts(run: RunView, arguments: Arguments) -> object:
    return history.alerts(
        run,
        history.AlertFilter(
            arguments.optional_integer("from"),
            arguments.optional_integer("to"),
            arguments.text("detector"),
            arguments.text("severity"),
            arguments.integer("limit"),
        ),
    )


def _any_incident(index: Index, arguments: Arguments) -> object:
    id_ = arguments.text("incident")
    with index.reading() as database:
        found = database.execute(
            "SELECT runs.id FROM records JOIN runs USING (run) WHERE incident = ? "
            "AND incident != '' ORDER BY run LIMIT 1",
            (id_,),
        ).fetchone()
    if found is None:
        raise not_found(f"there is no incident {id_}", "incident")
    with index.run(found[0]) as run:
        return incidents.incident_detail(run, id_)


def _compare(index: Index, arguments: Arguments) -> object:
    with index.reading() as database:
        ids = arguments.names("runs")
        return configs.compare([RunView.find(index.root, database, id_) for id_ in ids])


def _export(index: Index, arguments: Arguments) -> object:
    id_ = arguments.text("run")
    first, last = arguments.optional_integer("from"), arguments.optional_integer("to")
    with index.run(id_) as run:
        names = export.columns_of(run, arguments.names("metrics"))
        file_name = f"{run.id.strip('~')}.{arguments.text('format')}"
        if arguments.text("format") == "parquet":
            rows = export.exported_rows(run, names, first, last)
            return File(file_name, export.PARQUET, export.as_parquet(names, rows))

    def pieces() -> Any:
        with index.database.reading_alone() as database:
            run = RunView.find(index.root, database, id_)
            yield from export.as_csv(names, export.exported_rows(run, names, first, last))

    return File(file_name, export.CSV, pieces)


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/runs",
        "All runs, the worst first",
        _runs,
        overview.Overview,
        (
            Parameter("runs", "ids: only these", "names", most=1000),
            Parameter("sparklines", "whether to draw them", "flag", default=True),
        ),
    ),
    Route("GET", "/runs/{run}", "One run", _run, overview.RunDetail, (_RUN,)),
    Route(
        "GET",
        "/runs/{run}/series",
        "Metrics with the extremes of every pixel",
        _series,
        curves.Series,
        (
            _RUN,
            Parameter("metrics", "names", "names", default=["kl"], most=50),
            *(_WIDTH, _FROM, _TO, _AXIS),
        ),
    ),
    Route(
        "GET",
        "/runs/{run}/baseline",
        "What a z-score detector measures by",
        _of_run(lambda run, a: curves.baseline(run, a.text("detector"), _range(a))),
        curves.Baseline,
        (
            _RUN,
            Parameter(
                "detector",
                "which one",
                default="kl_explosion",
                choices=tuple(curves.BASELINE_DETECTORS),
            ),
            *(_WIDTH, _FROM, _TO, _AXIS),
        ),
    ),
    Route(
        "GET",
        "/runs/{run}/alerts",
        "Single alerts",
        _of_run(_alerts),
        history.Alerts,
        (
            *(_RUN, _FIRST_STEP, _LAST_STEP),
            Parameter("detector", "only of this detector"),
            Parameter("severity", "only of this severity", choices=SEVERITIES),
            Parameter("limit", "how many at most, the latest", "integer", 1000, 1, 10_000),
        ),
    ),
    Route(
        "GET",
        "/runs/{run}/checkpoints",
        "What the trainer saved",
        _of_run(lambda run, _: history.checkpoints(run)),
        history.Checkpoints,
        (_RUN,),
    ),
    Route(
        "GET",
        "/runs/{run}/rollbacks",
        "Where training went back",
        _of_run(lambda run, _: history.rollbacks(run)),
        history.Rollbacks,
        (_RUN,),
    ),
    Route(
        "GET",
        "/runs/{run}/config",
        "The settings of a run",
        _of_run(lambda run, _: configs.config_of(run)),
        configs.RunConfig,
        (_RUN,),
    ),
    Route(
        "GET",
        "/runs/{run}/incidents",
        "The incidents of a run",
        _of_run(lambda run, _: incidents.incidents(run)),
        incidents.Incidents,
        (_RUN,),
    ),
    Route(
        "GET",
        "/runs/{run}/incidents/{incident}",
        "All there is to say of one incident",
        _of_run(lambda run, a: incidents.incident_detail(run, a.text("incident"))),
        incidents.IncidentDetail,
        (_RUN, _INCIDENT),
    ),
    Route(
        "GET",
        "/incidents/{incident}",
        "The same, of any run",
        _any_incident,
        incidents.IncidentDetail,
        (_INCIDENT,),
    ),
    Route(
        "GET",
        "/compare",
        "How runs differ",
        _compare,
        configs.Comparison,
        (Parameter("runs", "ids", "names", most=20, least=2),),
    ),
    Route(
        "GET",
        "/settings",
        "What there is to set",
        lambda *_: configs.settings_catalogue(),
        configs.SettingsCatalogue,
    ),
    Route(
        "POST",
        "/runs/{run}/what-if",
        "What would have been with other settings",
        _of_run(lambda run, a: what_if.what_if(run, a.body(what_if.WhatIf))),
        what_if.WhatIfAnswer,
        (_RUN,),
        what_if.WhatIf,
        (503,),
    ),
    Route(
        "POST",
        "/runs/{run}/incidents/{incident}/ack",
        "Somebody knows of it",
        _acting(
            lambda run, a: actions.acknowledge(run, a.text("incident"), a.body(actions.Acknowledge))
        ),
        actions.Done,
        (_RUN, _INCIDENT),
        actions.Acknowledge,
        (503,),
    ),
    Route(
        "POST",
        "/runs/{run}/incidents/{incident}/close",
        "End it, or accept its level as normal",
        _acting(lambda run, a: actions.close(run, a.text("incident"), a.body(actions.Close))),
        actions.Done,
        (_RUN, _INCIDENT),
        actions.Close,
        (409, 503),
    ),
    Route(
        "POST",
        "/runs/{run}/silences",
        "Notify nobody of a signal for a while",
        _acting(lambda run, a: actions.silence(run, a.body(actions.SilenceSignal))),
        actions.Done,
        (_RUN,),
        actions.SilenceSignal,
        (503,),
    ),
    Route(
        "DELETE",
        "/runs/{run}/silences/{signal}",
        "End the silences of a signal",
        _acting(lambda run, a: actions.end_silence(run, a.text("signal"))),
        actions.Done,
        (_RUN, Parameter("signal", "kl, reward, entropy …", in_path=True)),
        None,
        (409, 503),
    ),
    Route(
        "PUT",
        "/runs/{run}/incidents/{incident}/false-alarm",
        "Mark it as a false alarm",
        _acting(
            lambda run, a: actions.mark_false_alarm(
                run, a.text("incident"), a.body(actions.MarkFalseAlarm)
            )
        ),
        actions.Done,
        (_RUN, _INCIDENT),
        actions.MarkFalseAlarm,
        (503,),
    ),
    Route(
        "DELETE",
        "/runs/{run}/incidents/{incident}/false-alarm",
        "Remove the mark",
        _acting(lambda run, a: actions.unmark_false_alarm(run, a.text("incident"))),
        actions.Done,
        (_RUN, _INCIDENT),
        None,
        (409, 503),
    ),
    Route(
        "GET",
        "/runs/{run}/export",
        "The rows of a run as a file",
        _export,
        File,
        (
            _RUN,
            Parameter("format", "csv or parquet", default="csv", choices=("csv", "parquet")),
            Parameter("metrics", "names; all if left out", "names", most=1000),
            *(_FIRST_STEP, _LAST_STEP),
        ),
        None,
        (501,),
    ),
    Route(
        "GET",
        "/status",
        "How the server is",
        lambda index, _: overview.status(index),
        overview.Status,
    ),
)
