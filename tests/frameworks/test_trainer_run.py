"""Which run of klarm a training with TRL is: its own, or the one that it resumes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import tiny_trl
from transformers.trainer_utils import HPSearchBackend

from klarm.integrations.trl import KlarmCallback
from recorded_lines import lines_of


def steps(run: str) -> list[int]:
    return [record["step"] for record in lines_of(run, "step") if "loss" in record["metrics"]]


def test_output_folders_with_the_same_last_part_do_not_share_a_run(reference: Path) -> None:
    """A resumed one finds its own again."""
    saves = {"save_strategy": "steps", "save_steps": 2}
    for folder in ("a/out", "b/out"):
        tiny_trl.make_trainer(reference, Path(folder), 2, [KlarmCallback()], **saves).train()
    assert (steps("out"), steps("b-out")) == ([1, 2], [1, 2])
    again = tiny_trl.make_trainer(reference, Path("b/out"), 4, [KlarmCallback()], **saves)
    again.train(resume_from_checkpoint=True)
    assert (steps("out"), steps("b-out")) == ([1, 2], [1, 2, 3, 4])
    assert sorted(path.name for path in Path("klarm_runs").iterdir()) == ["b-out", "out"]


def test_trials_of_one_trainer_do_not_share_a_run(reference: Path) -> None:
    """As a search with Optuna has them: one process, one output folder, each from step 1."""
    saves = {"save_strategy": "steps", "save_steps": 2}
    trainer = tiny_trl.make_trainer(reference, Path("out"), 2, [KlarmCallback()], **saves)
    trainer.hp_search_backend = HPSearchBackend.RAY  # whose trials are dicts
    for number, rate in enumerate((1e-5, 2e-5)):
        trainer.hp_name = lambda _, number=number: f"run-{number}"
        trainer.train(trial={"learning_rate": rate})
    trainer.train(trial={"learning_rate": 3e-5})
    runs = sorted(path.name for path in Path("klarm_runs").iterdir())
    assert runs == ["out-run-0", "out-run-1", "out-run-1-2"]
    assert [steps(run) for run in runs] == [[1, 2], [1, 2], [1, 2]]
    assert [lines_of(run, "resume") for run in runs] == [[], [], []]
    (saved,) = lines_of("out-run-0", "checkpoint")
    assert Path(saved["path"]) == Path("out/run-0/checkpoint-2").absolute()


def test_trials_of_ray_tune_are_recorded_where_the_search_began(tmp_path: Path) -> None:
    """Each in a process and a working directory of its own, and as a run of its own."""
    script = Path(__file__).parent / "search_with_ray.py"
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={**os.environ, "HOME": str(tmp_path)},  # where Ray keeps results
    )
    assert done.returncode == 0, done.stderr[-3000:]
    runs = sorted(path.name for path in Path("klarm_runs").iterdir())
    assert len(runs) == 2
    assert all(run.startswith("out-trial-") for run in runs)
    assert [steps(run) for run in runs] == [[1, 2, 3], [1, 2, 3]]
