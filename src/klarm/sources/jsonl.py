"""JSON Lines logs: an object a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from klarm.sources.row import LogRow, SourceError


def read(path: Path, say: Callable[[str], None]) -> Iterator[LogRow]:
    """Yield the rows of a JSON Lines file; NaN and Infinity are taken as Python writes them."""
    read_any = False
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
                    read_any = True
                    yield LogRow.of(fields)
                else:
                    say(f"{path} line {number} is no JSON object; passed over: {line.strip():.60}")
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    if not read_any:
        raise SourceError(
            f"{path} holds no JSON objects; klarm reads CSV (named *.csv), JSON Lines and journals"
        )
