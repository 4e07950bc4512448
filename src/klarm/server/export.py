"""Export: the rows of a run as CSV or Parquet, one row per step that was not rolled back."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from klarm.server.problems import bad_request, not_found, unavailable
from klarm.server.requests import LARGEST, Names, Query, Whole
from klarm.server.served_run import ServedRun

_LINES = 1000  # per chunk of the answer
# Characters with which a formula begins in a spreadsheet.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")

# A step, its time, and the values of the metrics asked for.
_ExportedRow = tuple[int, float, list[float | None]]


@dataclass(frozen=True)
class File:
    """An answer that is a file to save."""

    name: str
    kind: str
    content: bytes | Iterator[bytes]  # or in chunks


class RowsToExport(Query, frozen=True, rename={"first": "from", "last": "to"}):
    """Which rows of a run to export, and how."""

    format: Literal["csv", "parquet"] = "csv"
    metrics: Annotated[Names, Meta(max_length=1000)] = ()
    first: Whole = -LARGEST
    last: Whole = LARGEST


def export(run: ServedRun, asked: RowsToExport) -> File:
    """Return the rows of a run as a file: the wanted metrics, or all."""
    known = run.metric_names()
    for name in asked.metrics:
        if name not in known:
            raise not_found(f"run {run.summary.name} has no metric {name}", "metrics")
    names = asked.metrics or tuple(known)
    if asked.first > asked.last:
        raise bad_request(f"from ({asked.first}) is beyond to ({asked.last})", "from")
    rows = _rows(run, names, asked.first, asked.last)
    file_name = f"{run.id.strip('~')}.{asked.format}"
    if asked.format == "parquet":
        return File(file_name, "application/vnd.apache.parquet", _as_parquet(names, rows))
    return File(file_name, "text/csv; charset=utf-8", _as_csv(names, rows))


def _rows(run: ServedRun, names: Names, first: int, last: int) -> Iterator[_ExportedRow]:
    """Yield one row per step. If a step was logged in several calls, the first value wins."""
    current: _ExportedRow | None = None
    for step, time, cells in run.columns_with(names).rows(names):
        if not first <= step <= last:
            continue
        if current is not None and current[0] == step:
            for place, cell in enumerate(cells):
                if current[2][place] is None:
                    current[2][place] = cell
            continue
        if current is not None:
            yield current
        current = (step, time, cells)
    if current is not None:
        yield current


def _as_csv(names: Sequence[str], rows: Iterator[_ExportedRow]) -> Iterator[bytes]:
    """Yield a CSV file in chunks."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["step", "time", *(_harmless(name) for name in names)])
    for number, (step, time, values) in enumerate(rows, 1):
        writer.writerow([step, repr(time), *("" if v is None else repr(v) for v in values)])
        if number % _LINES == 0:
            yield text.getvalue().encode(errors="replace")
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode(errors="replace")


def _as_parquet(names: Sequence[str], rows: Iterator[_ExportedRow]) -> bytes:
    """Return a Parquet file, or raise ApiError if pyarrow is not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        message = "Parquet needs pyarrow where klarm serve runs: pip install pyarrow"
        raise unavailable(message, status=501) from None
    steps: list[int] = []
    times: list[float] = []
    values: list[list[float | None]] = [[] for _ in names]
    for step, time, cells in rows:
        steps.append(step)
        times.append(time)
        for column, cell in zip(values, cells, strict=True):
            column.append(cell)
    columns = [steps, times, *values]
    types = [pyarrow.int64(), *[pyarrow.float64()] * (1 + len(names))]
    table = pyarrow.Table.from_arrays(
        [pyarrow.array(column, type_) for column, type_ in zip(columns, types, strict=True)],
        names=["step", "time", *names],
    )
    file = io.BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


def _harmless(name: str) -> str:
    """Return the name of a metric so that no spreadsheet reads it as a formula."""
    return f"'{name}" if name.startswith(_FORMULAS) else name
