"""RLlib: PPO on CartPole, with the KL to the old policy as a loss and without; APPO."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0")

import ray
import torch
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback

from framework_runs.run import Recording, Row, Run, runs_of

RUNS = [
    *runs_of(
        "rllib", "PPO", "cartpole", rows=30, learning_rate=3e-4, train_batch_size=1024,
        minibatch_size=256, num_epochs=6, healthy=(0, 1, 6, 7), jump=(0, 1), start=(2, 3),
    ),
    *runs_of(
        "rllib", "PPO", "cartpole-nokl", rows=30, learning_rate=5e-4, train_batch_size=512,
        minibatch_size=128, num_epochs=4, use_kl_loss=False, grad_clip=0.5,
        healthy=(0, 1, 6, 7), jump=(2, 3),
    ),
    # Healthy runs only, of other settings.
    *runs_of(
        "rllib", "PPO", "acrobot", rows=30, learning_rate=1e-3, env="Acrobot-v1",
        train_batch_size=512, minibatch_size=128, num_epochs=4, entropy_coeff=0.01,
        linear_decay=True, healthy=(6, 7),
    ),
    *runs_of(
        "rllib", "APPO", "cartpole", rows=60, learning_rate=1e-3, train_batch_size_per_learner=256,
        grad_clip=10.0, healthy=(6, 7, 8, 9),
    ),
]  # fmt: skip
_CONFIGS = {"PPO": PPOConfig, "APPO": APPOConfig}
_MODULE = "default_policy"


def record(run: Run) -> Recording:
    """Train a run; a row is what klarm's callback reads of an iteration."""
    torch.set_num_threads(1)
    if not ray.is_initialized():
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    logging.getLogger("ray").setLevel(logging.ERROR)
    _Returns.ended.clear()
    options = dict(run.options)
    env = options.pop("env", "CartPole-v1")
    decays = options.pop("linear_decay", False)
    config = (
        _CONFIGS[run.algorithm]()
        .environment(env)
        .env_runners(num_env_runners=0)
        .rl_module(model_config={"fcnet_hiddens": [64, 64]})
        .debugging(seed=run.seed)
        .callbacks(_Returns)
        .training(lr=_schedule(run, options.get("train_batch_size", 0), decays), **options)
    )
    if run.algorithm != "PPO":  # an iteration is a number of timesteps, not one update
        config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=256)
    algorithm = config.build_algo()
    rows: list[Row] = []
    returns: list[float | None] = []
    try:
        for _ in range(run.rows):
            result = algorithm.train()
            if _MODULE not in result.get("learners", {}):
                continue  # no update yet
            rows.append(_row(result, options.get("use_kl_loss", True)))
            ended = _Returns.ended
            returns.append(sum(ended) / len(ended) if ended else None)
            ended.clear()
    except ValueError:
        pass  # RLlib refuses to sample from NaN: the log ends here
    finally:
        algorithm.stop()
    return Recording(rows, returns)


class _Returns(RLlibCallback):
    """Collects the return of every episode; RLlib only logs a mean over the last hundred."""

    ended: list[float] = []  # noqa: RUF012

    def on_episode_end(self, *, episode: Any, **_: Any) -> None:
        self.ended.append(float(episode.get_return()))


def _schedule(run: Run, batch: int, decays: bool) -> float | list[list[float]]:
    """Return the learning rate schedule for RLlib: points of [timestep, rate]."""
    if decays:
        return [[0, run.base_rate], [run.rows * batch, 0.05 * run.base_rate]]
    if run.change != "jump":
        return run.base_rate
    jump = run.sane_rows * batch
    raised = run.base_rate * run.rate_factor(run.sane_rows + 1)
    return [[0, run.base_rate], [jump, run.base_rate], [jump + 1, raised]]


def _row(result: dict[str, Any], measures_kl: bool) -> Row:
    """Return the learner's metrics and the episodes' means: no timers, no configuration."""
    found = result["learners"][_MODULE]
    trained = found.get("num_module_steps_trained", 1) > 0  # APPO: not in every iteration
    learner = {
        f"learners/{_MODULE}/{key}": value
        for key, value in _flat(found if trained else {})
        if measures_kl or key != "mean_kl_loss"  # it is 0 then
    }
    runners = result["env_runners"]
    means = {}
    if runners.get("num_episodes"):  # without, the means are those of earlier iterations
        means = {
            f"env_runners/{key}": float(runners[key])
            for key in ("episode_return_mean", "episode_len_mean")
        }
    return {"step": int(result["training_iteration"]), **learner, **means}


def _flat(nested: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in nested.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}/{inner}", number) for inner, number in _flat(value))
        else:
            yield key, float(value)
