"""The routes of the API: one table of what is asked, what answers, and what it may be given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from klarm.server.actions import (
    Acknowledge,
    Close,
    MarkFalseAlarm,
    SilenceSignal,
    acknowledge,
    close,
    end_silence,
    mark_false_alarm,
    silence,
    take_back_acknowledgement,
    unmark_false_alarm,
)
from klarm.server.configs import RunsToCompare, compare, config_of, settings_catalogue
from klarm.server.curves import BaselineRange, SeriesRange, baseline, series
from klarm.server.export import RowsToExport, export
from klarm.server.history import AlertFilter, alerts, checkpoints, rollbacks
from klarm.server.incident_detail import incident_detail, incident_of_any_run
from klarm.server.incidents import incidents
from klarm.server.index import Index
from klarm.server.overview import RunsToShow, overview, run_detail, status
from klarm.server.requests import Query
from klarm.server.what_if import WhatIf, what_if

PREFIX = "/api/v1"


class Route(NamedTuple):
    """One request that the API answers.

    The handler takes the run that the path names, or else the index; then what else the path names;
    then the query or the body, if the route has one. The type that it returns is the answer.
    """

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str  # below PREFIX
    handler: Callable[..., object]
    query: type[Query] | None = None
    body: type[Any] | None = None

    def answer(self, index: Index, path: dict[str, str], *given: object) -> object:
        """Return the answer to a request, or raise ApiError."""
        names = dict(path)
        subject = index.run(names.pop("run")) if "run" in names else index
        answer = self.handler(subject, *names.values(), *given)
        if self.method != "GET":
            index.watch.nudge()  # so that what was written is read immediately
        return answer


_RUN = "/runs/{run}"
_INCIDENT = f"{_RUN}/incidents/{{incident}}"

ROUTES: tuple[Route, ...] = (
    Route("GET", "/runs", overview, query=RunsToShow),
    Route("GET", "/compare", compare, query=RunsToCompare),
    Route("GET", "/settings", settings_catalogue),
    Route("GET", "/status", status),
    Route("GET", "/incidents/{incident}", incident_of_any_run),
    Route("GET", _RUN, run_detail),
    Route("GET", f"{_RUN}/series", series, query=SeriesRange),
    Route("GET", f"{_RUN}/baseline", baseline, query=BaselineRange),
    Route("GET", f"{_RUN}/alerts", alerts, query=AlertFilter),
    Route("GET", f"{_RUN}/checkpoints", checkpoints),
    Route("GET", f"{_RUN}/rollbacks", rollbacks),
    Route("GET", f"{_RUN}/config", config_of),
    Route("GET", f"{_RUN}/export", export, query=RowsToExport),
    Route("GET", f"{_RUN}/incidents", incidents),
    Route("GET", _INCIDENT, incident_detail),
    Route("POST", f"{_INCIDENT}/ack", acknowledge, body=Acknowledge),
    Route("DELETE", f"{_INCIDENT}/ack", take_back_acknowledgement),
    Route("POST", f"{_INCIDENT}/close", close, body=Close),
    Route("PUT", f"{_INCIDENT}/false-alarm", mark_false_alarm, body=MarkFalseAlarm),
    Route("DELETE", f"{_INCIDENT}/false-alarm", unmark_false_alarm),
    Route("POST", f"{_RUN}/silences", silence, body=SilenceSignal),
    Route("DELETE", f"{_RUN}/silences/{{signal}}", end_silence),
    Route("POST", f"{_RUN}/what-if", what_if, body=WhatIf),
)
