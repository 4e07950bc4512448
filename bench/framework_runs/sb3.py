"""Stable-Baselines3: PPO, A2C, DQN, SAC, TD3 and DDPG on small tasks, on-policy and off-policy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecNormalize

from framework_runs.run import Recording, Row, Run, runs_of

_ALGORITHMS = {"PPO": PPO, "A2C": A2C, "DQN": DQN, "SAC": SAC, "TD3": TD3, "DDPG": DDPG}
_OFF_POLICY = ("DQN", "SAC", "TD3", "DDPG")
_SMALL = {"net_arch": [64, 64]}
# `per_row` is the number of timesteps from one update to the next, over all environments.
_DISCRETE = [
    *runs_of(  # learn(100_000) with SB3's defaults but for two that make it faster
        "sb3", "PPO", "cartpole", rows=49, learning_rate=3e-4, env="CartPole-v1", n_envs=8,
        per_row=2048, batch_size=256, healthy=(0, 1, 6, 7), jump=(0, 1), start=(2, 3),
    ),
    *runs_of(
        "sb3", "PPO", "cartpole-small", rows=60, learning_rate=1e-3, env="CartPole-v1", n_envs=4,
        per_row=512, n_epochs=4, batch_size=128, gamma=0.98,
        healthy=(0, 1, 2, 3, 6, 7), jump=(0, 1, 2, 3), start=(4, 5),
    ),
    *runs_of(
        "sb3", "PPO", "cartpole-long", rows=200, learning_rate=1e-3, env="CartPole-v1", n_envs=8,
        per_row=256, n_epochs=10, batch_size=256, gamma=0.98, gae_lambda=0.8, linear_decay=True,
        healthy=(0, 1, 6, 7), jump=(2, 3),
    ),
    *runs_of(
        "sb3", "PPO", "cartpole-200", rows=200, learning_rate=3e-4, env="CartPole-v1", n_envs=8,
        per_row=512, n_epochs=4, batch_size=128, gamma=0.98,
        healthy=(0, 1, 6, 7), jump=(2, 3),
    ),
    *runs_of(
        "sb3", "PPO", "acrobot", rows=40, learning_rate=1e-3, env="Acrobot-v1", n_envs=8,
        per_row=2048, n_epochs=4, batch_size=256, gae_lambda=0.94,
        healthy=(0, 1, 2, 3, 6, 7), jump=(0, 1), start=(2, 3),
    ),
]  # fmt: skip
# The entropy of continuous actions is differential: it may be negative.
_CONTINUOUS = [
    *runs_of(
        "sb3", "PPO", "pendulum", rows=50, learning_rate=1e-3, env="Pendulum-v1", n_envs=4,
        per_row=2048, n_epochs=10, batch_size=256, gamma=0.9,
        healthy=(0, 1, 6, 7), jump=(0, 1), start=(2, 3),
    ),
    *runs_of(
        "sb3", "PPO", "reach", rows=60, learning_rate=1e-3, env="reach", n_envs=8, per_row=1024,
        n_epochs=10, batch_size=256, gamma=0.9, policy_kwargs={"log_std_init": -0.5},
        healthy=(0, 1, 2, 3, 6, 7), jump=(0, 1), start=(2, 3),
    ),
]  # fmt: skip
_OTHERS = [
    *runs_of(
        "sb3", "A2C", "cartpole", rows=200, learning_rate=7e-4, env="CartPole-v1", n_envs=8,
        per_row=128, healthy=(0, 1, 2, 3, 6, 7), jump=(0, 1, 2), start=(3,),
    ),
    *runs_of(
        "sb3", "SAC", "pendulum", rows=50, learning_rate=1e-3, env="Pendulum-v1", n_envs=1,
        per_row=100, gradient_steps=60, batch_size=128, learning_starts=100,
        policy_kwargs=_SMALL, healthy=(0, 1, 2, 3, 6, 7), jump=(0, 1), start=(2, 3),
    ),
    *runs_of(
        "sb3", "TD3", "pendulum", rows=50, learning_rate=1e-3, env="Pendulum-v1", n_envs=1,
        per_row=100, gradient_steps=60, batch_size=128, learning_starts=400, noise=0.1,
        policy_kwargs=_SMALL, healthy=(0, 1, 6, 7), jump=(0, 1), start=(2, 3),
    ),
]  # fmt: skip
# Healthy runs only, of other tasks and other settings.
_LATER = (6, 7, 8, 9)
_FURTHER_DISCRETE = [
    *runs_of(  # it moves little by little and stops an epoch early when it moves too far
        "sb3", "PPO", "cartpole-target-kl", rows=80, learning_rate=1e-3, env="CartPole-v1",
        n_envs=4, per_row=512, batch_size=64, target_kl=0.02, ent_coef=0.01, healthy=_LATER,
    ),
    *runs_of(  # reward 0 until the goal is found for the first time
        "sb3", "PPO", "frozen-lake", rows=80, learning_rate=1e-3, env="FrozenLake-v1",
        env_kwargs={"is_slippery": False}, n_envs=8, per_row=512, n_epochs=4, batch_size=128,
        ent_coef=0.02, healthy=_LATER,
    ),
    *runs_of(  # a cliff: returns from -5,000 to -13
        "sb3", "PPO", "cliff", rows=80, learning_rate=1e-3, env="CliffWalking-v1",
        env_kwargs={"max_episode_steps": 100}, n_envs=8, per_row=512, n_epochs=6, batch_size=128,
        normalize=True, healthy=_LATER,
    ),
    *runs_of(  # the goal is rarely or never found: a flat reward
        "sb3", "PPO", "mountain-car", rows=60, learning_rate=1e-3, env="MountainCar-v0",
        n_envs=16, per_row=1024, n_epochs=4, batch_size=256, gae_lambda=0.98, normalize=True,
        healthy=_LATER,
    ),
    *runs_of(
        "sb3", "A2C", "acrobot", rows=150, learning_rate=7e-4, env="Acrobot-v1", n_envs=16,
        per_row=256, normalize=True, healthy=_LATER,
    ),
    *runs_of(
        "sb3", "DQN", "cartpole", rows=100, learning_rate=2.3e-3, env="CartPole-v1", n_envs=1,
        per_row=256, gradient_steps=64, batch_size=64, learning_starts=1000, buffer_size=50_000,
        target_update_interval=10, exploration_fraction=0.3, exploration_final_eps=0.04,
        healthy=_LATER,
    ),
    *runs_of(
        "sb3", "DQN", "acrobot", rows=60, learning_rate=6.3e-4, env="Acrobot-v1", n_envs=1,
        per_row=500, gradient_steps=100, batch_size=128, learning_starts=1000, buffer_size=50_000,
        target_update_interval=250, exploration_fraction=0.4, exploration_final_eps=0.1,
        healthy=_LATER,
    ),
]  # fmt: skip
_FURTHER_CONTINUOUS = [
    *runs_of(
        "sb3", "PPO", "pendulum-sde", rows=60, learning_rate=1e-3, env="Pendulum-v1", n_envs=4,
        per_row=1024, n_epochs=10, batch_size=128, gamma=0.9, use_sde=True, sde_sample_freq=4,
        healthy=_LATER,
    ),
    *runs_of(
        "sb3", "PPO", "mountain-car-continuous", rows=80, learning_rate=3e-4,
        env="MountainCarContinuous-v0", n_envs=8, per_row=512, n_epochs=10, batch_size=128,
        gamma=0.999, gae_lambda=0.9, use_sde=True, normalize=True, healthy=_LATER,
    ),
    *runs_of(
        "sb3", "A2C", "pendulum", rows=150, learning_rate=7e-4, env="Pendulum-v1", n_envs=8,
        per_row=128, gamma=0.9, gae_lambda=0.9, max_grad_norm=0.5, use_sde=True, normalize=True,
        linear_decay=True, healthy=_LATER,
    ),
    *runs_of(
        "sb3", "A2C", "reach", rows=150, learning_rate=1e-3, env="reach", n_envs=8, per_row=200,
        gamma=0.9, healthy=_LATER,
    ),
    *runs_of(
        "sb3", "SAC", "reach", rows=50, learning_rate=1e-3, env="reach", n_envs=1, per_row=75,
        gradient_steps=40, batch_size=128, learning_starts=150, policy_kwargs=_SMALL,
        healthy=_LATER,
    ),
    *runs_of(
        "sb3", "TD3", "reach", rows=60, learning_rate=1e-3, env="reach", n_envs=1, per_row=75,
        gradient_steps=50, batch_size=128, learning_starts=150, noise=0.2, policy_kwargs=_SMALL,
        healthy=_LATER,
    ),
    *runs_of(
        "sb3", "DDPG", "pendulum", rows=50, learning_rate=1e-3, env="Pendulum-v1", n_envs=1,
        per_row=100, gradient_steps=60, batch_size=128, learning_starts=400, noise=0.1,
        policy_kwargs=_SMALL, healthy=_LATER,
    ),
]  # fmt: skip
RUNS = [*_DISCRETE, *_CONTINUOUS, *_OTHERS, *_FURTHER_DISCRETE, *_FURTHER_CONTINUOUS]


class Reach(gym.Env[Any, Any]):
    """A point in space that has to reach the origin: three continuous actions, learnt quickly."""

    observation_space = gym.spaces.Box(-4, 4, (3,))
    action_space = gym.spaces.Box(-1, 1, (3,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self._position = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self._position, {}

    def step(self, action: Any) -> Any:
        self._position = np.clip(self._position + 0.2 * action, -4, 4).astype(np.float32)
        return self._position, -float(np.linalg.norm(self._position)), False, False, {}


gym.register("reach", entry_point=Reach, max_episode_steps=25)


def record(run: Run) -> Recording:
    """Train a run; a row is what klarm's callback reads after an update."""
    torch.set_num_threads(1)
    options = deepcopy(dict(run.options))  # SB3 writes into policy_kwargs
    n_envs, per_row = options["n_envs"], options["per_row"]
    env = make_vec_env(
        options["env"], n_envs=n_envs, seed=run.seed, env_kwargs=options.get("env_kwargs")
    )
    if options.get("normalize"):  # as users do; the returns that are logged stay as they are
        is_box = isinstance(env.observation_space, gym.spaces.Box)
        env = VecNormalize(env, norm_obs=is_box, gamma=options.get("gamma", 0.99))
    if "noise" in options:
        size = env.action_space.shape
        options["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, options["noise"]))
    rollout = "train_freq" if run.algorithm in _OFF_POLICY else "n_steps"
    options[rollout] = per_row // n_envs
    rate = _schedule(run, options.get("linear_decay", False))
    for ours in ("env", "env_kwargs", "normalize", "n_envs", "per_row", "noise", "linear_decay"):
        options.pop(ours, None)
    model = _ALGORITHMS[run.algorithm](
        "MlpPolicy", env, learning_rate=rate, seed=run.seed, device="cpu", **options
    )
    observer = _Observer()
    with suppress(ValueError):  # SB3 refuses to sample from NaN: the log ends here
        model.learn(run.rows * per_row, callback=observer)
    return Recording(observer.rows, observer.returns)


def _schedule(run: Run, linear_decay: bool) -> Callable[[float], float]:
    """Return the learning rate by the share of the training that is left."""

    def rate(left: float) -> float:
        row = round((1 - left) * run.rows)
        return run.base_rate * run.rate_factor(row) * (max(left, 0.02) if linear_decay else 1.0)

    return rate


class _Observer(BaseCallback):
    """Reads an update when the next rollout begins, as klarm's callback does."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.returns: list[float | None] = []
        self._updates = 0
        self._ended: list[float] = []  # returns of the episodes since the last row
        self._last_episode: Any = None

    def _on_rollout_start(self) -> None:
        self._read()

    def _on_training_end(self) -> None:
        self._read()

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        self._ended += [float(info["episode"]["r"]) for info in infos if "episode" in info]
        return True

    def _read(self) -> None:
        if self.model._n_updates == self._updates:
            return
        self._updates = self.model._n_updates
        logged = {key: _plain(value) for key, value in self.logger.name_to_value.items()}
        self.rows.append({"step": self.model.num_timesteps, **logged, **self._reward()})
        ended, self._ended = self._ended, []
        self.returns.append(sum(ended) / len(ended) if ended else None)

    def _reward(self) -> dict[str, float]:
        """Return SB3's mean over 100 episodes, which is cleared from its log before the update."""
        episodes = self.model.ep_info_buffer
        if not episodes or episodes[-1] is self._last_episode:
            return {}
        self._last_episode = episodes[-1]
        return {"reward": sum(float(episode["r"]) for episode in episodes) / len(episodes)}


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
