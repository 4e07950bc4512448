"""Logs that are one JSON document: `trainer_state.json`, rows by step, or a list of rows."""

from __future__ import annotations

import json
from pathlib import Path

from klarm.sources.row import LogRow, SourceError, StepColumn

TRAINER_STATE = "trainer_state.json"
# Enough for the log of a million steps. A larger file is something else, and is not loaded.
_MAX_BYTES = 512 * 2**20


def read(path: Path, step_column: str = "") -> list[LogRow] | None:
    """Return the rows of a document; None if the file is not one."""
    if path.stat().st_size > _MAX_BYTES:
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig", errors="replace"))
    except (ValueError, RecursionError):
        return None
    if isinstance(content, dict) and isinstance(history := content.get("log_history"), list):
        if not history:
            raise SourceError(f"{path} holds no rows: its log_history is empty")
        content = history
    if isinstance(content, list):
        steps = StepColumn(step_column)
        return [steps.row(row) for row in content if isinstance(row, dict)] or None
    if isinstance(content, dict):
        return _by_step(content)
    return None


def looks_like_one(path: Path) -> bool:
    """Return whether a file may be a document, by its name and its first line."""
    if path.suffix.lower() == ".json":
        return True
    with path.open("rb") as file:
        begin = file.readline(100).removeprefix(b"\xef\xbb\xbf").strip()
    return begin in (b"{", b"[") or begin.startswith((b"[{", b'{"log_history"'))


def _by_step(content: dict[str, object]) -> list[LogRow] | None:
    """Return the rows of `{"1": {"kl": ...}}` in numerical order of their steps."""
    rows = [
        LogRow(int(step), row)
        for step, row in content.items()
        if step.isdecimal() and isinstance(row, dict)
    ]
    if not rows or len(rows) != len(content):
        return None
    return sorted(rows, key=lambda row: int(str(row.step)))
