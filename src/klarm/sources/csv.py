"""CSV logs: a header line, then a row a step."""

from __future__ import annotations

import csv

from klarm.sources.lines import NotARow
from klarm.sources.row import LogRow

# A cell with line breaks in it is put together again; more of them than this is a stray quote.
_MAX_BREAKS = 1000


class Parser:
    """Turns the lines of one CSV file into rows."""

    def __init__(self) -> None:
        self._header: list[str] = []
        self._begun: list[str] = []  # a row with a quote that has not been closed

    def __call__(self, line: str) -> LogRow | None:
        """Return the row that ends with this line, if one does and it is not the header."""
        self._begun.append(line)
        whole = "\n".join(self._begun) if len(self._begun) > 1 else line
        if whole.count('"') % 2 and len(self._begun) < _MAX_BREAKS:
            return None
        self._begun.clear()
        try:
            cells = next(csv.reader([whole]))
        except (csv.Error, StopIteration):
            raise NotARow("is no row of a CSV file") from None
        if not self._header:
            self._header = [name.strip() for name in cells]
            return None
        fields = zip(self._header, cells, strict=False)
        return LogRow.of({name: cell for name, cell in fields if name})
