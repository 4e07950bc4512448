"""CSV logs: a header line, then a row a step."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from klarm.sources.row import LogRow, SourceError


def read(path: Path) -> Iterator[LogRow]:
    """Yield the rows of a CSV file."""
    rows = 0
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            for fields in csv.DictReader(file, restkey=""):
                rows += 1
                yield LogRow.of({key.strip(): value for key, value in fields.items() if key})
    except (csv.Error, OSError) as error:
        raise SourceError(f"{path} is not a CSV file: {error}") from None
    if rows == 0:
        raise SourceError(f"{path} holds no rows: a CSV file has a header line and a row a step")
