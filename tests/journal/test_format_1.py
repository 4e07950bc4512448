"""Journals of klarm 0.1.0 stay readable: the same incidents, the same deliveries."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import klarm
from klarm.delivery import log as deliveries
from klarm.delivery.log import Delivered
from klarm.journal.fold import Fold
from klarm.journal.identity import derived_id
from klarm.journal.incident import IncidentRecord
from klarm.journal.reading import head_of, read_journal
from klarm.journal.search import recorded_events

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


def ended(incident: IncidentRecord) -> str:
    if incident.is_open:
        return "open"
    if incident.reason == "rolled_back":
        return "rolled back"
    return "resolved" if incident.recovered else "not recovered"


@pytest.mark.parametrize("run", INCIDENTS)
def test_the_incidents_are_what_they_were(run: str) -> None:
    """Number, severity, end and steps, as 0.1.0 showed them."""
    fold = Fold(RUNS / run / "journal.jsonl")
    events = fold.update()
    found = [
        (i.number, i.signal, i.severity, ended(i), i.last.started, i.last.step)
        for i in fold.incidents.values()
    ]
    assert found == INCIDENTS[run]
    assert [e for _, _, e in recorded_events(RUNS / run / "journal.jsonl")] == events


@pytest.mark.parametrize("run", INCIDENTS)
def test_every_incident_has_an_id_that_stays(run: str) -> None:
    """It follows from when the run began and the incident's number, whoever reads it."""
    head = head_of(RUNS / run / "journal.jsonl")
    assert head is not None
    assert head.format == 1
    fold = Fold(RUNS / run / "journal.jsonl")
    fold.update()
    assert list(fold.incidents) == [derived_id(head.started, n) for n, *_ in INCIDENTS[run]]


# By run: steps that count, those rolled back, and the last step.
STEPS = {
    "open": (85, 0, 84),
    "settled": (340, 0, 339),
    "rolled_back": (111, 29, 110),
    "torn": (45, 0, 44),
    "resumed": (151, 0, 150),
}


@pytest.mark.parametrize("run", STEPS)
def test_rollbacks_undo_what_they_did(run: str) -> None:
    """Steps that count, steps that do not, and where the run is."""
    fold = Fold(RUNS / run / "journal.jsonl")
    fold.update()
    assert (fold.steps, fold.rolled_back, fold.last_step) == STEPS[run]


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
