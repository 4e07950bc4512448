"""Journals of klarm 0.1.0 stay readable: the same incidents, the same deliveries."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import klarm
from klarm.delivery import log as deliveries
from klarm.delivery.log import Delivered
from klarm.journal.file import read_journal
from klarm.journal.search import recorded_events
from klarm.types import Event

RUNS = Path(__file__).parent / "format_1"

# By run: number, signal, severity, how it ended (or "open"), its first step and its last.
INCIDENTS = {
    "open": [(1, "kl", "critical", "open", 60, 64)],
    "settled": [
        (1, "kl", "critical", "not recovered", 80, 146),
        (2, "reward", "warning", "resolved", 124, 168),
    ],
    "rolled_back": [(1, "kl", "critical", "rolled back", 60, 51)],
    "torn": [(1, "kl", "critical", "open", 40, 40)],
    "resumed": [
        (1, "kl", "critical", "resolved", 60, 104),
        (2, "loss", "critical", "open", 140, 140),
    ],
}
DELIVERED = {"open": 1, "settled": 4, "rolled_back": 2, "torn": 0, "resumed": 3}


def ended(event: Event) -> str:
    if event.event != "resolved":
        return "open"
    if event.reason == "rolled back":
        return "rolled back"
    return "resolved" if event.recovered else "not recovered"


@pytest.mark.parametrize("run", INCIDENTS)
def test_the_incidents_are_what_they_were(run: str) -> None:
    """Number, severity, end and steps, as 0.1.0 showed them."""
    last = {e.incident: e for _, _, e in recorded_events(RUNS / run / "journal.jsonl")}
    found = [(n, e.signal, e.severity, ended(e), e.started, e.step) for n, e in last.items()]
    assert found == INCIDENTS[run]


@pytest.mark.parametrize("run", DELIVERED)
def test_what_was_delivered_is_known(run: str) -> None:
    """So that nobody is notified twice when klarm is upgraded."""
    entries = [entry for _, entry in deliveries.read(RUNS / run)]
    assert sum(isinstance(entry, Delivered) for entry in entries) == DELIVERED[run]


@pytest.mark.parametrize("run", INCIDENTS)
def test_a_run_can_be_continued(run: str) -> None:
    """The journal goes on where it was, whatever its last line."""
    shutil.copytree(RUNS / run, Path("klarm_runs") / run)
    before = (Path("klarm_runs") / run / "journal.jsonl").read_bytes()
    klarm.init(run, console=False)
    klarm.log({"kl": 0.02, "reward": 0.5, "entropy": 1.2})
    klarm.finish()
    path = Path("klarm_runs") / run / "journal.jsonl"
    assert path.read_bytes().startswith(before)
    assert sum(1 for _ in read_journal(path)) > before.count(b"\n")
