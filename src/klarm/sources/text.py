"""The output of trainers: dicts (TRL and others) and verl's `step:1 - actor/kl_loss:0.01 - ...`."""

from __future__ import annotations

import re

from klarm.metrics import meaning, to_number
from klarm.sources import jsonl
from klarm.sources.lines import NotARow
from klarm.sources.row import LogRow, StepColumn

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# It may follow a progress bar or Ray's `(TaskRunner pid=12) `, but it is not part of a longer key.
_VERL = re.compile(r"(?<![\w/])step:(\d+) - (.*)")
# Innermost braces only, because a dict of numbers has no nested ones.
_DICT = re.compile(r"\{[^{}]*\}")
_NUMBER = r"[-+]?(?:nan|inf(?:inity)?|\d[\d_]*\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?)"
# A number, perhaps quoted or wrapped: '0.1', np.float64(0.1), tensor(0.1, device=...).
_VALUE = re.compile(rf"\s*(?:[a-z_][\w.]*\(\s*)?['\"]?({_NUMBER}(?:/\d+)?)(?![\w.])", re.IGNORECASE)
_KEY = re.compile(r"(['\"])([^'\"{}]+)\1\s*:")
# What surrounds a dict that is part of a larger one, such as a configuration.
_IN_A_LARGER_ONE = re.compile(r"(?:['\"]\s*:|[,\[({=])\s*$")
_GOES_ON = re.compile(r"\s*[,\])}]")


class Parser:
    """Finds the rows among the lines of a console log.

    A log contains other output, too. So a dict counts only if klarm knows one of its keys and, in a
    log with steps, only if it has a step.
    """

    def __init__(self, steps: StepColumn) -> None:
        self._steps = steps
        self._parse_json = jsonl.Parser(steps)
        self._has_steps = steps.given

    def __call__(self, line: str) -> LogRow | None:
        """Return the row of a line, or None."""
        if line.lstrip().startswith('{"'):
            try:
                return self._in_place(self._parse_json(line))
            except NotARow:
                pass
        line = _COLOUR.sub("", line)
        if found := _VERL.search(line):
            self._has_steps = True
            return LogRow(found[1], _pairs(found[2]))
        for found in _DICT.finditer(line):
            if _IN_A_LARGER_ONE.search(line[: found.start()]) or _GOES_ON.match(line, found.end()):
                continue
            row = self._in_place(self._steps.row(_fields(found[0])))
            if row is not None:
                return row
        return None

    def _in_place(self, row: LogRow) -> LogRow | None:
        if row.step is not None:
            self._has_steps = True
            return row
        if self._has_steps:
            return None
        numbers = [key for key, value in row.metrics.items() if to_number(value) is not None]
        return row if any(meaning(key) is not None for key in numbers) else None


def _fields(text: str) -> dict[str, object]:
    """Return the numbers of a printed dict.

    >>> _fields("{'loss': 0.1, 'kl': '0', 'reward': np.float64(nan), 'note': 'x'}")
    {'loss': '0.1', 'kl': '0', 'reward': 'nan'}
    """
    fields: dict[str, object] = {}
    for key in _KEY.finditer(text):
        if value := _VALUE.match(text, key.end()):
            fields[key[2]] = value[1]
    return fields


def _pairs(text: str) -> dict[str, object]:
    """Return the numbers of verl's line.

    >>> _pairs("actor/kl_loss:np.float64(0.00068) - timing_s/step:12.5")
    {'actor/kl_loss': '0.00068', 'timing_s/step': '12.5'}
    """
    fields: dict[str, object] = {}
    for pair in text.split(" - "):
        key, colon, value = pair.strip().rpartition(":")
        if colon and (number := _VALUE.match(value)):
            fields[key] = number[1]
    return fields
