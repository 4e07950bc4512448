"""Tables: a header line, then one row per step, separated by commas, semicolons or tabs."""

from __future__ import annotations

import csv
import re

from klarm.metrics import meaning
from klarm.sources.lines import NotARow
from klarm.sources.row import LogRow, StepColumn

# The lines of a quoted cell are joined. If there are more than this, the quote is a typo.
_MAX_BREAKS = 1000
_DIVIDERS = ",;\t"
_QUOTED = re.compile(r'"[^"]*"')
# If semicolons separate cells, numbers may have a decimal comma, as in spreadsheets.
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")


class Parser:
    """Turns the lines of one table into rows. The header shows what separates its cells."""

    def __init__(self, steps: StepColumn) -> None:
        self._steps = steps
        self._header: list[str] = []
        self._divider = ","
        self._begun: list[str] = []  # a row whose quote is still open

    def __call__(self, line: str) -> LogRow | None:
        """Return the row that ends with this line, or None; the header is not a row."""
        self._begun.append(line)
        whole = "\n".join(self._begun) if len(self._begun) > 1 else line
        if whole.count('"') % 2 and len(self._begun) < _MAX_BREAKS:
            return None
        self._begun.clear()
        if not self._header:
            self._divider = _divider(whole)
        try:
            cells = next(csv.reader([whole], delimiter=self._divider))
        except (csv.Error, StopIteration):
            raise NotARow("is not a row of a CSV file") from None
        if not self._header:
            self._header = [name.strip() for name in cells]
            return None
        if self._divider == ";":
            cells = [_with_point(cell) for cell in cells]
        fields = zip(self._header, cells, strict=False)
        return self._steps.row({name: cell for name, cell in fields if name})


def is_header(line: str, steps: StepColumn) -> bool:
    """Return whether a line is the header of a table: several names, at least one of them known.

    >>> is_header("Step;KL;note", StepColumn()), is_header("loading, step by step", StepColumn())
    (True, False)
    """
    names = [name.strip().strip('"') for name in line.split(_divider(line))]
    if len(names) < 2 or not all(names):
        return False
    is_known = any(meaning(name) is not None for name in names)
    return is_known or steps.row(dict.fromkeys(names, 1)).step is not None


def _divider(header: str) -> str:
    plain = _QUOTED.sub("", header)
    return max(_DIVIDERS, key=plain.count)


def _with_point(cell: str) -> str:
    """Return a number with a decimal point instead of a comma.

    >>> _with_point("0,25"), _with_point("1.5"), _with_point("a,b")
    ('0.25', '1.5', 'a,b')
    """
    return cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell.strip()) else cell
