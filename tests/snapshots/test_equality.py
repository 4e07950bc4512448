"""A run that is restored from a snapshot goes on exactly as one that never stopped. (keeper.py)"""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_runs import RandomRun

from klarm.config.layers import load
from klarm.journal import FileJournal, MemoryJournal, NewId, counting_ids
from klarm.metrics import METRICS, Origin
from klarm.monitor import Monitor
from klarm.monitor.evaluator import Evaluator
from klarm.snapshots import FOLDER, pack_state, unpack_state
from klarm.types import Event

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]


def evaluator(ids: NewId) -> Evaluator:
    config = load()
    made = Evaluator(config.detectors(), config.incident_rules(), ids=ids)
    made.bind({name: Origin(name) for name in METRICS})
    return made


@pytest.mark.slow
@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), stop=st.integers(1, 400))
def test_what_is_restored_says_what_the_original_says(seed: int, stop: int) -> None:
    """Alerts, events, scores and states, row by row, whatever row it was captured at."""
    run = RandomRun(seed)
    run.acts(600)
    rows = sorted(run.rows.items())
    ids = counting_ids()  # one for both: no id is given twice, as in real runs
    original, restored = evaluator(ids), evaluator(ids)
    for step, row in rows[:stop]:
        original.look(step, row)
    restored.restore(unpack_state(pack_state(original.capture())))
    for step, row in rows[stop:]:
        said, changes = restored.look(step, row)
        expected, expected_changes = original.look(step, row)
        assert repr(said) == repr(expected)
        assert repr(without_ids(changes)) == repr(without_ids(expected_changes))
    assert [d.score for d in restored.detectors] == [d.score for d in original.detectors]


def without_ids(changes: object) -> list[str]:
    """Each of them has new ids of its own."""
    return [repr(change).partition(" id=")[0] for change in changes]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_snapshots_change_nothing_but_the_time_it_takes(tmp_path: Path) -> None:
    """Through rollbacks and restarts, the journal is the same to the byte as without them."""
    used = 0  # how many there are depends on how quick the thread is
    for seed in range(8):
        run = RandomRun(seed)
        with_them, without = tmp_path / f"with-{seed}", tmp_path / f"without-{seed}"
        for _ in range(3):  # processes
            acts = run.acts(250)
            for folder, every in ((with_them, 23), (without, 10**9)):
                folder.mkdir(exist_ok=True)
                watched = start(folder, every)
                for act in acts:
                    act.do(watched)
                watched.finish(5.0)
            used += len(list((with_them / FOLDER).glob("*.snapshot")))
            assert (with_them / "journal.jsonl").read_bytes() == (
                without / "journal.jsonl"
            ).read_bytes(), seed
        assert not (without / FOLDER).exists()
    assert used


def start(folder: Path, every: int) -> Monitor:
    """Begin or continue a run, everything in it being the same each time."""
    config, now, ids = load(), count(), count()
    return Monitor(
        "a",
        config.detectors(),
        FileJournal(folder, print),
        rules=config.incident_rules(),
        ids=lambda signal, started, opened: f"{signal}-{started}-{opened}-{next(ids)}",
        clock=lambda: float(next(now)),
        snapshot_rows=every,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replay_goes_back_by_snapshots_too(seed: int) -> None:
    """Its journal is in memory, and so are they."""
    acts = RandomRun(seed).acts(600)
    journals = []
    for every in (23, 10**9):
        config, now, ids = load(), count(), count()
        journal = MemoryJournal()
        watched = Monitor(
            "a",
            config.detectors(),
            journal,
            rules=config.incident_rules(),
            ids=lambda s, a, o, ids=ids: f"{s}-{a}-{o}-{next(ids)}",  # type: ignore[misc]
            clock=lambda now=now: float(next(now)),  # type: ignore[misc]
            snapshot_rows=every,
        )
        for act in acts:
            act.do(watched)
        watched.finish(5.0)
        journals.append([repr(record) for record in journal.records])
    assert journals[0] == journals[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_not_recorded_goes_back_as_one_that_is(seed: int) -> None:
    """On ranks other than 0, as far back as three snapshots reach."""
    acts = RandomRun(seed, commands=False).acts(500)
    results = []
    for journal in (MemoryJournal(), None):
        config, ids = load(), count()
        watched = Monitor(
            "a",
            config.detectors(),
            journal,
            rules=config.incident_rules(),
            ids=lambda s, a, o, ids=ids: f"{s}-{a}-{o}-{next(ids)}",  # type: ignore[misc]
            snapshot_rows=100,
        )
        events: list[Event] = []
        watched.on_event.append(events.append)
        alerts = [act.do(watched) for act in acts]
        # A journal spells a peak that is not finite.
        same = [(e.event, e.id, e.incident, e.step, e.severity, e.reason) for e in events]
        results.append((repr(alerts), same))
    assert results[0] == results[1]
