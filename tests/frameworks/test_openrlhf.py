"""OpenRLHF: its real loggers, in this process and in a Ray actor as in its trainer."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from openrlhf.utils.logging_utils import TensorboardLogger, WandbLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import klarm
import klarm.integrations.openrlhf
from recorded_lines import lines_of

# What OpenRLHF's PPO trainer logs at a step.
STEP = {
    "kl": 0.02,
    "ppo_kl": 0.001,
    "vllm_kl": 0.0004,
    "policy_loss": -0.01,
    "ppo_clip_ratio": 0.05,
    "entropy_loss": 0.9,
    "actor_grad_norm": 0.4,
    "actor_lr": 1e-6,
    "rollout/reward_mean": 0.5,
    "rollout/reward_std": 0.1,
    "rollout/response_length_mean": 210.0,
    "rollout/truncated_rate": 0.02,
    "timing/generation": 3.0,
    "generated_samples": ("What is 1+1? 2", 1.0),
}


def arguments(name: str = "ppo-7b") -> SimpleNamespace:
    """Return what OpenRLHF's loggers read of its command line."""
    wandb = SimpleNamespace(run_name=name, key="offline", org=None, project="openrlhf", group=None)
    # Its thread may write when the test is over and the working directory is another.
    folder = str(Path("tensorboard").absolute())
    return SimpleNamespace(logger=SimpleNamespace(tensorboard_dir=folder, wandb=wandb))


def scalars(tag: str, run: str = "ppo-7b") -> list[tuple[int, float]]:
    """Return what the TensorBoard directory holds."""
    events = EventAccumulator(f"tensorboard/{run}")
    events.Reload()
    return [(event.step, round(event.value, 6)) for event in events.Scalars(tag)]


def test_what_openrlhf_logs_is_watched_under_klarms_names() -> None:
    """Beside its TensorBoard directory, the run named as OpenRLHF names it."""
    klarm.integrations.openrlhf.watch()
    logger = TensorboardLogger(arguments())
    for step in (1, 2):
        logger.log_train(step, dict(STEP))
    logger.close()
    steps = lines_of("ppo-7b", "step")
    assert [step["step"] for step in steps] == [1, 2]
    assert steps[0]["metrics"] == {
        "kl": 0.02,
        "kl_old": 0.001,
        "kl_rollout": 0.0004,
        "loss": -0.01,
        "clip_fraction": 0.05,
        "entropy": 0.9,
        "grad_norm": 0.4,
        "learning_rate": 1e-6,
        "reward": 0.5,
        "reward_std": 0.1,
        "length": 210.0,
        "truncated_fraction": 0.02,
        "timing/generation": 3.0,
    }
    assert lines_of("ppo-7b", "run")[0]["framework"] == "openrlhf"
    assert lines_of("ppo-7b", "binding")[0]["kinds"] == {
        "kl": {"target": "reference", "clamped": True},
        "kl_old": {"target": "old", "estimator": "k1"},
        "kl_rollout": {"target": "rollout", "estimator": "k1"},
    }
    assert lines_of("ppo-7b", "finish")[0]["steps"] == 2
    assert scalars("train/kl") == [(1, 0.02), (2, 0.02)]


def test_a_late_evaluation_is_no_going_back() -> None:
    """An asynchronous trainer logs it for a step that is long over."""
    klarm.integrations.openrlhf.watch(run="mine")
    logger = TensorboardLogger(arguments())
    logger.log_train(5, dict(STEP))
    logger.log_eval(2, {"eval_math_pass1": 0.4})
    logger.log_train(6, dict(STEP))
    logger.close()
    steps = lines_of("mine", "step")
    assert [step["step"] for step in steps] == [5, 5, 6]
    assert steps[1]["metrics"] == {"eval/eval_math_pass1": 0.4}
    assert lines_of("mine", "resume") == []
    assert scalars("eval/eval_math_pass1") == [(2, 0.4)]


def test_two_loggers_are_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenRLHF gives the same dict to W&B and to TensorBoard."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    klarm.integrations.openrlhf.watch()
    loggers = [WandbLogger(arguments()), TensorboardLogger(arguments())]
    for step in (1, 2):
        logs = {key: value for key, value in STEP.items() if key != "generated_samples"}
        for logger in loggers:
            logger.log_train(step, logs)
    for logger in loggers:
        logger.close()
    assert [step["step"] for step in lines_of("ppo-7b", "step")] == [1, 2]


def test_a_rank_other_than_0_records_nothing() -> None:
    """As with every other `watch`."""
    klarm.integrations.openrlhf.watch(rank=1)
    logger = TensorboardLogger(arguments())
    logger.log_train(1, dict(STEP))
    logger.close()
    assert not Path("klarm_runs").exists()
    assert scalars("train/kl") == [(1, 0.02)]


def test_a_nan_opens_an_incident() -> None:
    """All the way from OpenRLHF's call."""
    klarm.integrations.openrlhf.watch()
    TensorboardLogger(arguments()).log_train(1, {**STEP, "kl": math.nan})
    assert [event["signal"] for event in lines_of("ppo-7b", "event")] == ["kl"]


def test_a_wrong_setting_is_said_before_training() -> None:
    """Where the logger is made."""
    klarm.integrations.openrlhf.watch(kl_explosion={"sigma": 5})
    with pytest.raises(klarm.ConfigError, match=r"kl_explosion\.sigma is unknown"):
        TensorboardLogger(arguments())


@pytest.mark.usefixtures("broken_detector")
def test_a_failure_of_ours_leaves_openrlhfs_log_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """It is said once."""
    klarm.integrations.openrlhf.watch()
    logger = TensorboardLogger(arguments())
    for step in (1, 2, 3):
        logger.log_train(step, dict(STEP))
        logger.log_eval(step, {"pass1": 0.5})
    logger.close()
    assert scalars("train/kl") == [(1, 0.02), (2, 0.02), (3, 0.02)]
    assert len(scalars("eval/pass1")) == 3
    assert capsys.readouterr().err.count("broken detector") == 1


def test_openrlhfs_own_mistakes_are_raised_as_before() -> None:
    """What its logger raises is the trainer's to see."""
    klarm.integrations.openrlhf.watch()
    logger = TensorboardLogger(arguments())
    with pytest.raises(NotImplementedError):
        logger.log_train(1, {"kl": object()})
    assert lines_of("ppo-7b", "step") == []


def test_watch_can_come_before_the_import_and_loads_nothing() -> None:
    """In a process that has no logger it costs nothing."""
    code = """
import sys, klarm.integrations.openrlhf as integration
integration.watch(run="early")
assert not {"torch", "openrlhf"} & sys.modules.keys()
from types import SimpleNamespace as N
from openrlhf.utils.logging_utils import TensorboardLogger
logger = TensorboardLogger(N(logger=N(tensorboard_dir="tb", wandb=N(run_name="a"))))
logger.log_train(1, {"kl": 0.1})
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert [step["metrics"] for step in lines_of("early", "step")] == [{"kl": 0.1}]


def test_a_ray_actor_is_watched_by_a_setup_hook() -> None:
    """OpenRLHF's trainer is a Ray actor; the hook runs in every worker before it."""
    code = """
import ray
from types import SimpleNamespace as N
import klarm.integrations.openrlhf

ray.init(
    num_cpus=1,
    include_dashboard=False,
    runtime_env={"worker_process_setup_hook": klarm.integrations.openrlhf.watch},
)

@ray.remote
class Trainer:
    def fit(self, folder):
        import os
        os.chdir(folder)
        from openrlhf.utils.logging_utils import TensorboardLogger
        logger = TensorboardLogger(N(logger=N(tensorboard_dir="tb", wandb=N(run_name="actor"))))
        logger.log_train(1, {"kl": 0.1})
        logger.close()

import sys
ray.get(Trainer.remote().fit.remote(sys.argv[1]))
"""
    subprocess.run([sys.executable, "-c", code, Path.cwd()], check=True, capture_output=True)
    assert [step["metrics"] for step in lines_of("actor", "step")] == [{"kl": 0.1}]


def test_our_file_is_not_taken_for_the_package() -> None:
    """Both are called openrlhf."""
    import openrlhf

    assert klarm.integrations.openrlhf.__file__ != openrlhf.__file__
    assert hasattr(klarm.integrations.openrlhf, "watch")
