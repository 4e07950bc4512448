"""JSON Lines logs: one object per line."""

from __future__ import annotations

import json

from klarm.sources.lines import NotARow
from klarm.sources.row import LogRow, StepColumn


class Parser:
    """Turns the lines of one log into rows."""

    def __init__(self, steps: StepColumn) -> None:
        self._steps = steps

    def __call__(self, line: str) -> LogRow:
        """Return the row of a line; NaN and Infinity are accepted as Python writes them."""
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise NotARow("is not a JSON object")
        return self._steps.row(fields)
