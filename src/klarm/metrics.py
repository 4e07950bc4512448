"""The metrics klarm knows: their names, what each means, and what the frameworks call them.

No other file spells a framework's key.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One canonical metric."""

    name: str
    meaning: str
    # What frameworks log it as; when a step has several of them, the first here is taken. A key is
    # also known with `train/` before it; one that is clear only with it has it here.
    keys: tuple[str, ...] = ()
    # Why it may be missing, said to a user whose detector waits for it.
    when_missing: str = ""
    # What it must not be taken for: other metrics that users call by the same word.
    unlike: tuple[str, ...] = ()


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "kl",
            "KL of the policy to the reference model",
            keys=(
                "objective/kl",
                "actor/kl_loss",
                "actor/reward_kl_penalty",
                "train/kl_penalty",
                "policy/policy_kl",
                "loss/avg_kl",
                "train/kl_loss",
                "kl_policy_base",
            ),
            when_missing="TRL's GRPO logs it only with beta > 0, verl only with a KL penalty",
            unlike=("kl_old", "kl_rollout"),
        ),
        Metric(
            "kl_old",
            "KL of the new policy to the one before the update",
            keys=("approx_kl", "policy/approxkl_avg", "actor/ppo_kl", "ppo_kl"),
        ),
        Metric(
            "kl_rollout",
            "KL of the trainer's policy to the sampler's",
            keys=("rollout_corr/k3_kl", "rollout_corr/kl", "vllm_kl", "gen_kl_error"),
        ),
        Metric(
            "entropy",
            "entropy of the policy, nats a token",
            keys=(
                "entropy/mean",
                "actor/entropy",
                "policy/entropy_avg",
                "policy/policy_entropy",
                "approx_entropy",
                "optim/entropy",
            ),
        ),
        Metric(
            "reward",
            "mean reward of the step's samples",
            keys=(
                "critic/score/mean",
                "critic/rewards/mean",
                "objective/scores",
                "rollout/reward_mean",
                "rollout/ep_rew_mean",
                "reward/avg_raw_reward",
                "reward_mean",
                "env/all/reward/total",
                "env/reward_mean",
                "rewards/mean",
                "env/reward_dist/mean",
            ),
        ),
        Metric(
            "reward_std",
            "spread of the rewards",
            keys=("rollout/reward_std", "env/reward_std", "rewards/std", "env/reward_dist/std"),
        ),
        Metric(
            "reward_dip_p",
            "p-value of the dip test of the step's rewards: near 0 if they have two peaks",
            keys=("rewards/dip_p", "env/reward_dist/dip_p"),
        ),
        Metric("advantage_std", "spread of the advantages", keys=("advantages/std",)),
        Metric(
            "loss",
            "the loss that is minimised",
            keys=("actor/pg_loss", "policy_loss", "pg_loss", "policy/final_loss", "loss/mean"),
        ),
        Metric(
            "grad_norm",
            "norm of the gradient before clipping",
            keys=("actor/grad_norm", "actor_grad_norm", "optim/grad_norm"),
        ),
        Metric("learning_rate", "learning rate", keys=("actor/lr", "lr")),
        Metric(
            "clip_fraction",
            "share of tokens whose ratio was clipped",
            keys=(
                "clip_ratio/region_mean",
                "actor/pg_clipfrac",
                "pg_clipfrac",
                "ppo_clip_ratio",
                "policy/clipfrac_avg",
            ),
        ),
        Metric(
            "length",
            "mean length of the completions, in tokens",
            keys=(
                "completions/mean_length",
                "completion_length",
                "response_length/mean",
                "rollout/response_length_mean",
                "generate/avg_num_tokens",
                "mean_gen_tokens_per_sample",
            ),
        ),
        Metric(
            "truncated_fraction",
            "share of completions cut at the length limit",
            keys=("completions/clipped_ratio", "response_length/clip_ratio"),
        ),
        Metric(
            "zero_std_fraction",
            "share of groups in which all rewards are equal",
            keys=("frac_reward_zero_std",),
        ),
        Metric("kl_coef", "weight of the KL penalty", keys=("objective/kl_coef", "actor/kl_coef")),
    )
}

# Keys whose values are sums over a sequence, not means over its tokens: a threshold for the one is
# none for the other.
_SUMS_OVER_SEQUENCE = frozenset({"objective/kl"})

# Hugging Face trackers, OpenRLHF, SB3 and slime put this before what the trainer logged: the
# number is the same with it and without.
_PREFIX = "train/"

# Keys that bring the rewards of a step's single samples. `klarm.samples` makes statistics of them,
# whose keys are above: the last of each metric, so that what the trainer says itself goes first.
SAMPLES = frozenset(
    prefix + key for key in ("rewards", "env/reward_dist") for prefix in ("", _PREFIX)
)

# key -> (canonical name, rank): lower ranks go first when a step has several keys of one metric.
_RANKS: dict[str, tuple[str, int]] = {
    key: (metric.name, rank)
    for metric in METRICS.values()
    for rank, key in enumerate((metric.name, *metric.keys))
}

_PLAIN = (int, float, str)
_NOT_NUMBERS = (bool, bytes, bytearray)


def rank(key: str) -> tuple[str, int] | None:
    """Return which metric a framework's key is, and how good a source of it; None if unknown.

    >>> rank("train/approx_kl")
    ('kl_old', 1)
    """
    return _RANKS.get(key) or _RANKS.get(key.removeprefix(_PREFIX))


def is_sum_over_sequence(key: str) -> bool:
    """Tell whether a framework's key is summed over the tokens of a sequence.

    >>> is_sum_over_sequence("train/objective/kl"), is_sum_over_sequence("kl")
    (True, False)
    """
    return key.removeprefix(_PREFIX) in _SUMS_OVER_SEQUENCE


def to_number(value: object) -> float | None:
    """Return what a trainer logged as a float; None for what is not one number.

    Numbers of Python, numpy and torch, tensors and arrays with one element and numeric text are
    taken. Booleans, None, words, lists and longer arrays are not.

    >>> to_number("0.25"), to_number("inf"), to_number("n/a"), to_number(True)
    (0.25, inf, None, None)
    """
    if value is None or isinstance(value, _NOT_NUMBERS):
        return None
    try:
        if not isinstance(value, _PLAIN) and hasattr(value, "item"):
            value = value.item()  # numpy and torch; fails for more than one element
            if isinstance(value, bool):
                return None
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            return math.inf if value > 0 else -math.inf
        return float(value)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001  # a foreign object may fail in any way of its own
        return None
