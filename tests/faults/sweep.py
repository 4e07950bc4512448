"""Kills a run at one write after the other, and counts what `klarm deliver` and a restart lose."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopback import Server

SCRIPT = Path(__file__).parent / "kill_sweep.py"
# What people are notified of, and what everybody may know besides.
NOTIFIED = ("opened", "escalated", "resolved")

Report = dict[str, Any]
Told = tuple[str, str, int]


@dataclass
class Sweep:
    """What was recorded after every crash, the undisturbed run first, and what was sent."""

    reports: list[Report]
    notified: set[Told]

    def of(self, how: str) -> list[Report]:
        """Return the reports of what was done after a crash."""
        return [report for report in self.reports if report["how"] == how]

    def lost(self, how: str) -> list[tuple[int, float]]:
        """Return after which crashes an incident's last news did not get through."""
        return [(r["crash"], r["part"]) for r in self.of(how) if not self._is_delivered(r)]

    def _is_delivered(self, report: Report) -> bool:
        last: dict[str, Told] = {}  # earlier ones may have been merged in
        for id_, kind, step, *_ in report["events"]:
            if kind in NOTIFIED:
                last[id_] = (id_, kind, step)
        return all(
            any(k[0] == id_ and (k[1] == kind or k[2] >= step) for k in self.notified)
            for id_, kind, step in last.values()
        )


def kept(report: Report) -> list[tuple[object, ...]]:
    """Return the events of incidents that no rollback undid, without ids and steps.

    What happened at the last step before a crash is dated by the step at which the run goes on.
    """
    return [
        (kind, reason, signal, severity)
        for id_, kind, _, reason, signal, severity in report["events"]
        if id_ not in report["undone"]
    ]


def sweep_writes(every: int = 1) -> Sweep:
    """Kill a run at every so many of its writes."""
    with tempfile.TemporaryDirectory() as place:
        server = Server()
        config = Path(place) / "klarm.yaml"
        config.write_text(f"channels: {{ops: {{type: webhook, url: '{server.url}/hook'}}}}\n")
        try:
            done = subprocess.run(
                [sys.executable, str(SCRIPT), place, str(config), str(every)],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            server.close()
        if done.returncode:
            raise RuntimeError(done.stderr)
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Sweep(reports, {(m["id"], m["event"], m["step"]) for m in server.messages})
