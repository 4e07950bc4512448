"""Trackers beside klarm in real TRL runs: what klarm reads from them, and what it tells them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_trl
import trackio
import wandb
from trackio import context_vars

from klarm.integrations.trackio import watch as watch_trackio

STEPS = 6


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model all runs begin with."""
    return tiny_trl.make_reference(tmp_path_factory.mktemp("model") / "reference")


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have every tracker stay in this folder, and end its run afterwards."""
    monkeypatch.setattr("trackio.sqlite_storage.TRACKIO_DIR", Path.cwd() / "trackio")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(Path.cwd()))
    yield
    if context_vars.current_run.get() is not None:
        trackio.finish()
    if wandb.run is not None:
        wandb.finish()


def journal(run: str, *kinds: str) -> list[dict[str, Any]]:
    lines = Path(f"klarm_runs/{run}/journal.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["type"] in kinds]


def steps_with(run: str, metric: str) -> list[int]:
    return [row["step"] for row in journal(run, "step") if metric in row["metrics"]]


def test_a_row_logged_to_trackio_belongs_to_the_trainers_step(
    reference: Path, tmp_path: Path
) -> None:
    """TRL logs durations with a step, and metrics and evaluations without."""
    monitor = watch_trackio("a")
    evaluated = {"eval_strategy": "steps", "eval_steps": 2, "per_device_eval_batch_size": 16}
    tiny_trl.make_trainer(
        reference, tmp_path / "out", STEPS, [], report_to="trackio", run_name="one", **evaluated
    ).train()
    assert steps_with("a", "kl") == [1, 2, 3, 4, 5, 6]
    assert steps_with("a", "eval/reward") == [2, 4, 6]
    assert journal("a", "resume") == []
    monitor.finish()


def test_a_trackio_run_that_is_continued_by_name_keeps_the_trainers_steps(
    reference: Path, tmp_path: Path
) -> None:
    """Transformers continues a Trackio run of the same name, whose count of rows goes on."""
    for run in ("a", "b"):
        monitor = watch_trackio(run)
        tiny_trl.make_trainer(
            reference, tmp_path / run, STEPS, [], report_to="trackio", run_name="one"
        ).train()
        monitor.finish()
        assert steps_with(run, "kl") == [1, 2, 3, 4, 5, 6]
        assert journal(run, "resume") == []
