"""Export: the rows of a run as CSV or Parquet, one row per step that was not rolled back."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from klarm.server.problems import not_found, unavailable
from klarm.server.served_run import ServedRun

CSV, PARQUET = "text/csv; charset=utf-8", "application/vnd.apache.parquet"
_LINES = 1000  # per chunk of the answer
# Characters with which a formula begins in a spreadsheet.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")

# A step, its time, and the values of the metrics asked for.
_ExportedRow = tuple[int, float, list[float | None]]


def columns_of(run: ServedRun, wanted: Sequence[str]) -> list[str]:
    """Return the metrics to export: the wanted ones, or all of the run; or raise ApiError."""
    names = run.metric_names()
    for name in wanted:
        if name not in names:
            raise not_found(f"run {run.summary.name} has no metric {name}", "metrics")
    return list(wanted) or list(names)


def exported_rows(
    run: ServedRun, names: Sequence[str], first: int | None, last: int | None
) -> Iterator[_ExportedRow]:
    """Yield one row per step. If a step was logged in several calls, the first value wins."""
    current: _ExportedRow | None = None
    for step, time, cells in run.columns_with(names).rows(names):
        if (first is not None and step < first) or (last is not None and step > last):
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


def as_csv(names: Sequence[str], rows: Iterator[_ExportedRow]) -> Iterator[bytes]:
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


def as_parquet(names: Sequence[str], rows: Iterator[_ExportedRow]) -> bytes:
    """Return a Parquet file, or raise ApiError if pyarrow is not installed."""
    pyarrow, parquet = _pyarrow()
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


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        message = "Parquet needs pyarrow where klarm serve runs: pip install pyarrow"
        raise unavailable(message, status=501) from None
    return pyarrow, pyarrow.parquet


def _harmless(name: str) -> str:
    """Return the name of a metric so that no spreadsheet reads it as a formula."""
    return f"'{name}" if name.startswith(_FORMULAS) else name
