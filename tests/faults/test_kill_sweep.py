"""A run that is killed at any write loses no event: `klarm deliver` sends it, or a restart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import Server

SCRIPT = Path(__file__).parent / "kill_sweep.py"
# What people are notified of, and what everybody may know besides.
NOTIFIED = ("opened", "escalated", "resolved")

Told = tuple[str, str, int]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict], set[Told]]:
    """Kill a run at every write; return what was recorded, and what reached the service."""
    place = tmp_path_factory.mktemp("sweep")
    server = Server()
    config = place / "klarm.yaml"
    config.write_text(f"channels: {{ops: {{type: webhook, url: '{server.url}/hook'}}}}\n")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(place), str(config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    server.close()
    assert done.returncode == 0, done.stderr
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    told = {(m["id"], m["event"], m["step"]) for m in server.messages}
    return reports, told


def notified(report: dict) -> set[Told]:
    return {(id_, kind, step) for id_, kind, step, *_ in report["events"] if kind in NOTIFIED}


def delivered(report: dict, told: set[Told]) -> bool:
    """Tell whether each incident's last news got through: earlier ones may have been merged in."""
    last: dict[str, Told] = {}
    for id_, kind, step, *_ in report["events"]:
        if kind in NOTIFIED:
            last[id_] = (id_, kind, step)
    return all(any(k[0] == n[0] and k[2] >= n[2] for k in told) for n in last.values())


def test_the_run_has_something_to_lose(sweep: tuple[list[dict], set[Told]]) -> None:
    """Incidents open, settle or recover, and the last one ends with the run."""
    straight = sweep[0][0]
    kinds = [kind for _, kind, *_ in straight["events"]]
    assert {"opened", "escalated", "resolved"} <= set(kinds)
    assert len(sweep[0]) > 100


@pytest.mark.parametrize("how", ["deliver", "restart"])
def test_every_event_is_delivered(sweep: tuple[list[dict], set[Told]], how: str) -> None:
    """Whatever was on its way to the disk when the process died."""
    reports, told = sweep
    lost = [(r["crash"], r["part"]) for r in reports if r["how"] == how and not delivered(r, told)]
    assert lost == []


def test_a_restart_comes_to_the_same_incidents(sweep: tuple[list[dict], set[Told]]) -> None:
    """As the run that was never killed; what was undone and came again does not count."""
    straight, *others = sweep[0]
    expected = [event[1:] for event in straight["events"]]
    for report in others:
        if report["how"] == "restart":
            kept = [event for event in report["events"] if event[0] not in report["undone"]]
            assert [event[1:] for event in kept] == expected, (report["crash"], report["part"])


def test_no_id_is_ever_reused(sweep: tuple[list[dict], set[Told]]) -> None:
    """Across all the runs of the sweep."""
    opened = [
        (report["crash"], id_, step)
        for report in sweep[0]
        if report["how"] == "restart"
        for id_, kind, step, *_ in report["events"]
        if kind == "opened"
    ]
    assert len({id_ for _, id_, _ in opened}) == len(opened)
