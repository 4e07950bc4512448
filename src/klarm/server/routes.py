"""The routes of the API: one table for routing, validation and the OpenAPI description."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from klarm.runs import Axis
from klarm.server import (
    actions,
    configs,
    curves,
    handlers,
    history,
    incident_detail,
    incidents,
    overview,
    what_if,
)
from klarm.server.handlers import File, Handler
from klarm.server.parameters import Parameter
from klarm.types import SEVERITIES

PREFIX = "/api/v1"


@dataclass(frozen=True)
class Route:
    """One request that the API answers."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str  # below PREFIX
    about: str
    handler: Handler
    answer: Any  # the type of the handler's result
    parameters: tuple[Parameter, ...] = ()
    body: type[Any] | None = None
    problems: tuple[int, ...] = field(default=())


_RUN = Parameter("run", "a run's id", in_path=True)
_INCIDENT = Parameter("incident", "an incident's id", in_path=True)
_WIDTH = Parameter("width", "pixels", "integer", 800, 1, 10_000)
_FROM = Parameter("from", "where the range begins", "number")
_TO = Parameter("to", "where the range ends", "number")
_AXIS = Parameter("axis", "step or time", default="step", choices=get_args(Axis))
_FIRST_STEP = Parameter("from", "the first step", "integer")
_LAST_STEP = Parameter("to", "the last step", "integer")


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/runs",
        "All runs, the worst first",
        handlers.all_runs,
        overview.Overview,
        (
            Parameter("runs", "only the runs with these ids", "names", max_names=1000),
            Parameter("sparklines", "whether to include sparklines", "flag", default=True),
        ),
    ),
    Route("GET", "/runs/{run}", "One run", handlers.one_run, overview.RunDetail, (_RUN,)),
    Route(
        "GET",
        "/runs/{run}/series",
        "Metrics, with the minimum and maximum of every pixel",
        handlers.series,
        curves.Series,
        (
            _RUN,
            Parameter("metrics", "names", "names", default=["kl"], max_names=50),
            *(_WIDTH, _FROM, _TO, _AXIS),
        ),
    ),
    Route(
        "GET",
        "/runs/{run}/baseline",
        "The baseline of a z-score detector",
        handlers.of_run(
            lambda run, a: curves.baseline(run, a.text("detector"), handlers.range_of(a))
        ),
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
        handlers.of_run(handlers.alerts),
        history.Alerts,
        (
            *(_RUN, _FIRST_STEP, _LAST_STEP),
            Parameter("detector", "only of this detector"),
            Parameter("severity", "only of this severity", choices=SEVERITIES),
            Parameter("limit", "at most this many, the latest", "integer", 1000, 1, 10_000),
        ),
    ),
    Route(
        "GET",
        "/runs/{run}/checkpoints",
        "The checkpoints of a run",
        handlers.of_run(lambda run, _: history.checkpoints(run)),
        history.Checkpoints,
        (_RUN,),
    ),
    Route(
        "GET",
        "/runs/{run}/rollbacks",
        "The rollbacks of a run",
        handlers.of_run(lambda run, _: history.rollbacks(run)),
        history.Rollbacks,
        (_RUN,),
    ),
    Route(
        "GET",
        "/runs/{run}/config",
        "The settings of a run",
        handlers.of_run(lambda run, _: configs.config_of(run)),
        configs.RunConfig,
        (_RUN,),
    ),
    Route(
        "GET",
        "/runs/{run}/incidents",
        "The incidents of a run",
        handlers.of_run(lambda run, _: incidents.incidents(run)),
        incidents.Incidents,
        (_RUN,),
    ),
    Route(
        "GET",
        "/runs/{run}/incidents/{incident}",
        "Everything about one incident",
        handlers.of_run(lambda run, a: incident_detail.incident_detail(run, a.text("incident"))),
        incident_detail.IncidentDetail,
        (_RUN, _INCIDENT),
    ),
    Route(
        "GET",
        "/incidents/{incident}",
        "Everything about one incident of any run",
        handlers.any_incident,
        incident_detail.IncidentDetail,
        (_INCIDENT,),
    ),
    Route(
        "GET",
        "/compare",
        "How runs differ",
        handlers.compare,
        configs.Comparison,
        (Parameter("runs", "ids", "names", max_names=20, min_names=2),),
    ),
    Route(
        "GET",
        "/settings",
        "All settings of detectors and incidents",
        lambda *_: configs.settings_catalogue(),
        configs.SettingsCatalogue,
    ),
    Route(
        "POST",
        "/runs/{run}/what-if",
        "Alerts and incidents with other settings",
        handlers.of_run(lambda run, a: what_if.what_if(run, a.body(what_if.WhatIf))),
        what_if.WhatIfAnswer,
        (_RUN,),
        what_if.WhatIf,
        (503,),
    ),
    Route(
        "POST",
        "/runs/{run}/incidents/{incident}/ack",
        "Acknowledge an incident",
        handlers.acting(
            lambda run, a: actions.acknowledge(run, a.text("incident"), a.body(actions.Acknowledge))
        ),
        actions.Done,
        (_RUN, _INCIDENT),
        actions.Acknowledge,
        (503,),
    ),
    Route(
        "DELETE",
        "/runs/{run}/incidents/{incident}/ack",
        "Take the acknowledgement of an incident back",
        handlers.acting(lambda run, a: actions.take_back_acknowledgement(run, a.text("incident"))),
        actions.Done,
        (_RUN, _INCIDENT),
        None,
        (409, 503),
    ),
    Route(
        "POST",
        "/runs/{run}/incidents/{incident}/close",
        "Close an incident, or accept its level as normal",
        handlers.acting(
            lambda run, a: actions.close(run, a.text("incident"), a.body(actions.Close))
        ),
        actions.Done,
        (_RUN, _INCIDENT),
        actions.Close,
        (409, 503),
    ),
    Route(
        "POST",
        "/runs/{run}/silences",
        "Hold back notifications of a signal for a while",
        handlers.acting(lambda run, a: actions.silence(run, a.body(actions.SilenceSignal))),
        actions.Done,
        (_RUN,),
        actions.SilenceSignal,
        (503,),
    ),
    Route(
        "DELETE",
        "/runs/{run}/silences/{signal}",
        "End the silences of a signal",
        handlers.acting(lambda run, a: actions.end_silence(run, a.text("signal"))),
        actions.Done,
        (_RUN, Parameter("signal", "kl, reward, entropy …", in_path=True)),
        None,
        (409, 503),
    ),
    Route(
        "PUT",
        "/runs/{run}/incidents/{incident}/false-alarm",
        "Mark an incident as a false alarm",
        handlers.acting(
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
        "Remove the false-alarm mark",
        handlers.acting(lambda run, a: actions.unmark_false_alarm(run, a.text("incident"))),
        actions.Done,
        (_RUN, _INCIDENT),
        None,
        (409, 503),
    ),
    Route(
        "GET",
        "/runs/{run}/export",
        "The rows of a run as a file",
        handlers.exported,
        File,
        (
            _RUN,
            Parameter("format", "csv or parquet", default="csv", choices=("csv", "parquet")),
            Parameter("metrics", "names; all if left out", "names", max_names=1000),
            *(_FIRST_STEP, _LAST_STEP),
        ),
        None,
        (501,),
    ),
    Route(
        "GET",
        "/status",
        "The state of the server",
        lambda index, _: overview.status(index),
        overview.Status,
    ),
)
