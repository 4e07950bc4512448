"""A step that comes in several dicts, as some frameworks log it, is watched like any other."""

from __future__ import annotations

import random

import pytest

import klarm
from cases import over
from klarm.cli.demo import RECORDINGS, read_recording
from klarm.detectors import CATALOGUE
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.trends import movements_of
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.types import Alert, Blip, Event

Row = dict[str, float]


def decaying_run() -> list[Row]:
    """Return 300 steps: at first level, then reward falls while KL rises, and entropy breaks."""
    rng = random.Random(0)
    rows = []
    for step in range(300):
        late = max(0, step - 100) / 200
        row = {"reward": 0.5 - 0.4 * late, "kl": 0.05 + 0.5 * late, "kl_old": 0.01, "entropy": 0.6}
        rows.append({name: value * rng.lognormvariate(0, 0.1) for name, value in row.items()})
    rows[290]["entropy"] = float("nan")
    return rows


def outcome(
    rows: list[Row], dicts: int = 1, *, backwards: bool = False
) -> list[tuple[object, ...]]:
    """Return what is said of a run whose every step comes in so many dicts."""
    journal = MemoryJournal()
    monitor = Monitor("a", [kind() for kind in CATALOGUE], journal)
    for step, row in enumerate(rows):
        keys = sorted(row, reverse=backwards)
        for part in range(dicts):
            monitor.log({key: row[key] for key in keys[part::dicts]}, step)
    monitor.finish()
    found: list[tuple[object, ...]] = []
    for record in journal.records:
        if isinstance(record, Alert):
            found.append((record.step, record.detector, record.severity))
        elif isinstance(record, Event | Blip):
            found.append((record.step, type(record).__name__, record.signal, record.severity))
        if isinstance(record, Event):
            found[-1] += (record.event, sorted(record.detectors), record.reason)
    return sorted(found, key=repr)


@over("recording", ["a decay", *RECORDINGS])
def test_the_same_is_said_however_many_dicts_a_step_comes_in(recording: str) -> None:
    """Alerts and incidents, at the same steps, in whatever order the metrics come."""
    is_decay = recording == "a decay"
    rows = decaying_run() if is_decay else read_recording(recording)
    whole = outcome(rows)
    assert outcome(rows, 3, backwards=True) == whole
    if is_decay:
        assert outcome(rows, 2) == outcome(rows, 20) == whole
        assert "reward_drift" in {detector for _, detector, *_ in whole}


def test_a_diagnosis_looks_back_over_steps_not_dicts() -> None:
    """Ten dicts per step leave as much to look at as one."""
    whole, parts = RecentRows(), RecentRows()
    for step in range(100):
        row = {"kl": 1.0 if step < 80 else 9.0, "reward": 0.5}
        whole.add(step, row)
        for part in ({"kl": row["kl"]}, {"reward": row["reward"]}, *[{"x": 1.0}] * 8):
            parts.add(step, part)
    assert movements_of(parts) == movements_of(whole)
    assert [movement.direction for movement in movements_of(whole)] == ["up", "flat"]


def test_a_step_that_never_advances_is_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Only its first values are watched, which nobody would notice from "no incident"."""
    with klarm.init("a") as monitor:
        for call in range(100):
            monitor.log({"kl": 0.01 * 1.2**call}, step=0)
    assert capsys.readouterr().err.count("step 0 was logged 21 times") == 1


def test_a_step_of_a_few_micro_batches_is_nothing_to_point_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Some scripts log each of them with the same step."""
    with klarm.init("a") as monitor:
        for step in range(50):
            for _ in range(16):
                monitor.log({"kl": 0.01}, step)
    assert "was logged" not in capsys.readouterr().err
