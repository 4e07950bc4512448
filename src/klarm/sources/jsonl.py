"""JSON Lines logs: an object a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from klarm.sources.row import LogRow, SourceError

# A file of another kind has nothing but such lines.
_MOST_SAID = 5


def read(path: Path, say: Callable[[str], None]) -> Iterator[LogRow]:
    """Yield the rows of a JSON Lines file; NaN and Infinity are taken as Python writes them."""
    rows = 0
    passed_over = 0
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    fields = json.loads(line)
                except (ValueError, RecursionError):
                    fields = None
                if isinstance(fields, dict):
                    rows += 1
                    yield LogRow.of(fields)
                    continue
                passed_over += 1
                if passed_over <= _MOST_SAID:
                    say(
                        f"{path} line {number} is no JSON object; passed over: {line.strip()!r:.60}"
                    )
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    if passed_over > _MOST_SAID:
        say(f"{path}: {passed_over} lines are no JSON objects; passed over")
    if rows == 0:
        raise SourceError(
            f"{path} holds no JSON objects; klarm reads CSV (named *.csv), JSON Lines and journals"
        )
