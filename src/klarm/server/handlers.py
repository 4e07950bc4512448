"""The handlers of requests: each finds the run and calls the part that answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from klarm.runs import Axis
from klarm.server import (
    configs,
    curves,
    export,
    history,
    incident_detail,
    overview,
)
from klarm.server.index import Index
from klarm.server.parameters import Arguments
from klarm.server.served_run import ServedRun

Handler = Callable[[Index, Arguments], object]


@dataclass(frozen=True)
class File:
    """An answer that is a file to save."""

    name: str
    kind: str
    content: bytes | Callable[[], Any]  # or a function that yields it in chunks


def of_run(answer: Callable[[ServedRun, Arguments], object]) -> Handler:
    """Return a handler that finds the run first."""

    def handler(index: Index, arguments: Arguments) -> object:
        return answer(index.run(arguments.text("run")), arguments)

    return handler


def acting(answer: Callable[[ServedRun, Arguments], object]) -> Handler:
    """Return a handler after which the index immediately reads what was written."""
    answering = of_run(answer)

    def handler(index: Index, arguments: Arguments) -> object:
        done = answering(index, arguments)
        index.watch.nudge()
        return done

    return handler


def all_runs(index: Index, arguments: Arguments) -> object:
    """Answer with the overview."""
    return overview.overview(
        index, arguments.names("runs"), with_sparklines=arguments.flag("sparklines")
    )


def one_run(index: Index, arguments: Arguments) -> object:
    """Answer with one run."""
    return overview.run_detail(index, index.run(arguments.text("run")))


def range_of(arguments: Arguments) -> curves.Range:
    """Return the part of an axis that a request asks for."""
    axis: Axis = "time" if arguments.text("axis") == "time" else "step"
    return curves.Range(
        axis,
        arguments.optional_number("from"),
        arguments.optional_number("to"),
        arguments.integer("width"),
    )


def series(index: Index, arguments: Arguments) -> object:
    """Answer with metrics along an axis."""
    cursor = index.changes.cursor
    run = index.run(arguments.text("run"))
    return curves.series(run, cursor, arguments.names("metrics"), range_of(arguments))


def alerts(run: ServedRun, arguments: Arguments) -> object:
    """Answer with single alerts."""
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


def any_incident(index: Index, arguments: Arguments) -> object:
    """Answer with an incident, whichever run it belongs to."""
    id_ = arguments.text("incident")
    return incident_detail.incident_detail(index.run_with(id_), id_)


def compare(index: Index, arguments: Arguments) -> object:
    """Answer with how runs differ."""
    return configs.compare([index.run(id_) for id_ in arguments.names("runs")])


def exported(index: Index, arguments: Arguments) -> object:
    """Answer with the rows of a run as a file."""
    first, last = arguments.optional_integer("from"), arguments.optional_integer("to")
    run = index.run(arguments.text("run"))
    names = export.columns_of(run, arguments.names("metrics"))
    file_name = f"{run.id.strip('~')}.{arguments.text('format')}"
    if arguments.text("format") == "parquet":
        rows = export.exported_rows(run, names, first, last)
        return File(file_name, export.PARQUET, export.as_parquet(names, rows))

    def pieces() -> Any:
        yield from export.as_csv(names, export.exported_rows(run, names, first, last))

    return File(file_name, export.CSV, pieces)
