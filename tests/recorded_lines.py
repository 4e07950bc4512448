"""The journal of a run as people read it: one dict per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def lines_of(run: str | Path, *kinds: str) -> list[dict[str, Any]]:
    """Return the lines of a run, given by its name or its folder: of these types, or all."""
    folder = run if isinstance(run, Path) else Path("klarm_runs") / run
    lines = map(json.loads, (folder / "journal.jsonl").read_text().splitlines())
    return [line for line in lines if not kinds or line["type"] in kinds]
