"""The handlers of requests: each finds the run and calls the part that answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from klarm.server import (
    configs,
    curves,
    export,
    history,
    incident_detail,
    overview,
)
from klarm.server.blocks import Axis
from klarm.server.index import Index
from klarm.server.parameters import Arguments
from klarm.server.problems import not_found
from klarm.server.run_view import RunView

Handler = Callable[[Index, Arguments], object]


@dataclass(frozen=True)
class File:
    """An answer that is a file to save."""

    name: str
    kind: str
    content: bytes | Callable[[], Any]  # or a function that yields it in chunks


def of_run(answer: Callable[[RunView, Arguments], object]) -> Handler:
    """Return a handler that finds the run first."""

    def handler(index: Index, arguments: Arguments) -> object:
        with index.run(arguments.text("run")) as run:
            return answer(run, arguments)

    return handler


def acting(answer: Callable[[RunView, Arguments], object]) -> Handler:
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
    with index.run(arguments.text("run")) as run:
        return overview.run_detail(index, run)


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
    with index.run(arguments.text("run")) as run:
        return curves.series(run, cursor, arguments.names("metrics"), range_of(arguments))


def alerts(run: RunView, arguments: Arguments) -> object:
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
    with index.reading() as database:
        found = database.execute(
            "SELECT runs.id FROM records JOIN runs USING (run) WHERE incident = ? "
            "AND incident != '' ORDER BY run LIMIT 1",
            (id_,),
        ).fetchone()
    if found is None:
        raise not_found(f"there is no incident {id_}", "incident")
    with index.run(found[0]) as run:
        return incident_detail.incident_detail(run, id_)


def compare(index: Index, arguments: Arguments) -> object:
    """Answer with how runs differ."""
    with index.reading() as database:
        ids = arguments.names("runs")
        return configs.compare([RunView.find(index.root, database, id_) for id_ in ids])


def exported(index: Index, arguments: Arguments) -> object:
    """Answer with the rows of a run as a file."""
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
