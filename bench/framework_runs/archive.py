"""The file of recorded runs: one line per run, appended as soon as the run is trained.

Numbers keep nine significant digits, which is all that a 32-bit float has. Every append is a
compressed stream of its own; readers of .xz take any number of them.
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from framework_runs import verdict
from framework_runs.run import Recording, Run

FILE = Path(__file__).parent / "runs.jsonl.xz"
_OLD_KL = {"train/approx_kl", "learners/default_policy/mean_kl_loss"}

Recordings = dict[str, tuple[Run, Recording]]


def append(run: Run, recording: Recording, versions: Mapping[str, str]) -> None:
    """Add a run to the file, in one write."""
    line = {
        "run": asdict(run) | {"options": dict(run.options)},
        "versions": dict(versions),
        "rows": [{key: _short(value) for key, value in row.items()} for row in recording.rows],
        "score": [_short(value) for value in recording.score],
    }
    packed = lzma.compress((json.dumps(line) + "\n").encode(), preset=9)
    file = os.open(FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, packed)
    finally:
        os.close(file)


def read() -> Recordings:
    """Return all recorded runs by name; none if the file is not there."""
    if not FILE.is_file():
        return {}
    found: Recordings = {}
    with lzma.open(FILE, "rt") as lines:
        for line in map(json.loads, lines):
            run = Run(**line["run"])
            found[run.name] = run, Recording(line["rows"], line["score"])
    return found


def entries(recordings: Recordings) -> list[dict[str, Any]]:
    """Judge every recorded run: what it is, what was done to it and what became of it."""
    return [
        _entry(
            run,
            recording,
            unchanged=[
                there
                for other, there in recordings.values()
                if other.family == run.family and other.change == "none"
            ],
        )
        for run, recording in recordings.values()
    ]


def _entry(run: Run, recording: Recording, unchanged: list[Recording]) -> dict[str, Any]:
    columns = {key for row in recording.rows for key in row}
    judged = verdict.judge(run, recording, unchanged)
    return {
        "name": run.name,
        "framework": run.framework,
        "algorithm": run.algorithm,
        "split": run.split,
        "label": judged.label,
        "onset_step": judged.onset_step,
        "evidence": judged.evidence,
        "kl_to_reference": "kl" in columns,
        "kl_to_old_policy": bool(_OLD_KL & columns),
        # As klarm gets them: step and metrics.
        "rows": [
            (row["step"], {key: value for key, value in row.items() if key != "step"})
            for row in recording.rows
        ],
    }


def _short(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value
