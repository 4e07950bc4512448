"""Kills runs at random moments before a moody service; counts what was lost, what doubled."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moody import MoodyServer

SCRIPT = Path(__file__).parent / "random_kills.py"


@dataclass
class Outcome:
    """What became of the events of all runs."""

    runs: int = 0
    events: int = 0
    lost: list[tuple[str, list[object]]] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)  # runs of which something was left for good
    doubled: int = 0  # messages seen again behind the service
    doubled_by_answers: int = 0  # of those, the ones whose answer the service had swallowed
    known_by_id: int = 0  # of those doubled, the ones that have the same id
    moods: Counter[str] = field(default_factory=Counter)


def kill_runs(kills: int, seed: int = 0) -> Outcome:
    """Kill so many processes; return what came of it."""
    server = MoodyServer(seed)
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as place:
        try:
            done = subprocess.run(
                [sys.executable, str(SCRIPT), place, server.url, str(kills), str(seed)],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        finally:
            server.close()
    for line in done.stdout.splitlines():
        report = json.loads(line)
        _add(outcome, report, server)
    outcome.moods = Counter(got.mood for got in server.got)
    return outcome


def _add(outcome: Outcome, report: dict[str, list[list[object]]], server: MoodyServer) -> None:
    run, path = str(report["run"]), f"/{report['run']}"
    outcome.runs += 1
    outcome.events += len(report["events"])
    if report["calls"] and report["calls"][-1] not in (0, 1):
        outcome.stuck.append(run)
    last: dict[object, list[object]] = {}
    for event in report["events"]:
        last[event[0]] = event
    taken = {(m["id"], _last_step(m)) for m in server.taken(path)}
    for id_, event in last.items():
        # Earlier news of an incident may have been merged into this.
        if not any(t[0] == id_ and t[1] >= event[2] for t in taken):
            outcome.lost.append((run, event))
    seen = Counter((m["id"], m["event"], m["step"]) for m in server.seen(path))
    answered = Counter((m["id"], m["event"], m["step"]) for m in server.taken(path))
    ids = Counter(m["message_id"] for m in server.seen(path))
    outcome.doubled += sum(seen.values()) - len(seen)
    outcome.doubled_by_answers += sum(min(n - 1, n - answered[k]) for k, n in seen.items())
    outcome.known_by_id += sum(ids.values()) - len(ids)


def _last_step(message: dict[str, Any]) -> int:
    """Return the step of the last event that a message tells: it may combine several."""
    history = message["fields"].get("History", "")
    return max(message["step"], *map(int, re.findall(r" at step (\d+): ", history)), 0)
