"""The metrics that klarm knows: their names, their meaning, and the keys that many programs use.

The keys of one framework are in its file in `frameworks`. Keys are spelled nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from klarm.metrics.frameworks import PREFIX, keys_of
from klarm.metrics.kl_kind import Target

# The numerics of the update, how KL is estimated, the reward function, the logits, or how the
# metric is counted and averaged.
LookAt = Literal["numerics", "kl_estimate", "reward_function", "logits", "counting"]


@dataclass(frozen=True)
class Metric:
    """One canonical metric."""

    name: str
    meaning: str
    # The keys under which programs log it: first those that only one framework has, which are
    # listed in its file in `frameworks`, then those here. If a step has several, the first is used.
    # A key may also have the prefix `train/`; one that is only clear with the prefix has it here. A
    # star stands for a part that the user names.
    keys: tuple[str, ...] = ()
    # Why it may be missing if the framework is unknown. A known one may say more in its file.
    when_missing: str = ""
    # Other metrics with which it must not be confused, because users call them by the same word.
    unlike: tuple[str, ...] = ()
    # What to set if it has been exactly 0 from the start, which means that it is not measured.
    when_zero: str = ""
    # The distribution with which a KL compares the policy.
    target: Target | None = None
    # Whether klarm's probe measures it, so that it may be missing from the log.
    by_probe: bool = False
    # Whether it only explains other metrics: no detector judges it or needs it.
    only_shown: bool = False
    # Whether it changes by factors, over orders of magnitude, rather than by differences.
    changes_by_factors: bool = False
    # Whether it often keeps the same value, as fractions and settings do. Other metrics that do are
    # taken for values that a log repeats until they are measured again; see monitor/held.py.
    often_constant: bool = False
    # Where to look first if it is NaN or infinite: what wording/not_finite.py advises.
    look_at: LookAt = "numerics"


METRICS: dict[str, Metric] = {
    metric.name: replace(metric, keys=(*keys_of(metric.name), *metric.keys))
    for metric in (
        Metric(
            "kl",
            "KL of the policy to the reference model",
            keys=("train/kl_loss",),
            when_missing="most trainers log it only with a KL penalty",
            unlike=("kl_old", "kl_rollout"),
            when_zero="set the weight of the KL penalty above 0 (beta, kl_coef) or log no kl",
            target="reference",
            changes_by_factors=True,
            look_at="kl_estimate",
        ),
        Metric(
            "kl_old",
            "KL of the new policy to the one before the update",
            keys=("approx_kl", "ppo_kl"),
            target="old",
            changes_by_factors=True,
            look_at="kl_estimate",
        ),
        Metric(
            "kl_rollout",
            "KL of the trainer's policy to the sampler's",
            target="rollout",
            changes_by_factors=True,
            look_at="kl_estimate",
        ),
        Metric(
            "kl_probe",
            "KL from the start of the run to the policy, per token, as klarm's probe measures it",
            by_probe=True,
            changes_by_factors=True,
        ),
        Metric(
            "entropy_probe",
            "entropy of the policy on the probe's contexts, nats per token",
            by_probe=True,
        ),
        Metric(
            "top_token_changed",
            "share of the probe's positions whose most likely token has changed since the start",
            by_probe=True,
        ),
        Metric(
            "entropy",
            "entropy of the policy, nats per token",
            keys=("entropy/mean",),
            look_at="logits",
        ),
        Metric(
            "reward",
            "mean reward of the step's samples",
            keys=("reward_mean", "rewards/mean", "env/reward_dist/mean"),
            look_at="reward_function",
        ),
        Metric(
            "reward_std",
            "spread of the rewards",
            keys=("rewards/std", "env/reward_dist/std"),
            look_at="reward_function",
        ),
        Metric(
            "reward_dip_p",
            "p-value of the dip test of the step's rewards: near 0 if they have two peaks",
            keys=("rewards/dip_p", "env/reward_dist/dip_p"),
            often_constant=True,
            look_at="reward_function",
        ),
        Metric(
            "advantage_std",
            "spread of the advantages",
            keys=("advantages/std",),
            look_at="reward_function",
        ),
        Metric(
            "loss",
            "the loss that is minimised",
            keys=("policy_loss", "pg_loss", "loss/mean", "policy_gradient_loss"),
            changes_by_factors=True,
        ),
        Metric(
            "actor_loss",
            "loss of the policy alone, where that of the critic is minimised with it or beside it",
            changes_by_factors=True,
        ),
        Metric(
            "critic_loss",
            "loss of the critic or value function",
            keys=("value_loss", "vf_loss"),
            changes_by_factors=True,
        ),
        Metric(
            "explained_variance",
            "share of the variance of returns that the value function explains: 1 at best",
            only_shown=True,
        ),
        Metric(
            "other_loss",
            "any other loss, recorded under this name when it is not finite",
            changes_by_factors=True,
        ),
        Metric(
            "grad_norm",
            "norm of the gradient before clipping",
            keys=("optim/grad_norm", "policy/grad_norm"),
            changes_by_factors=True,
        ),
        Metric(
            "learning_rate",
            "learning rate",
            keys=("lr", "optim/lr"),
            changes_by_factors=True,
            often_constant=True,
        ),
        Metric(
            "clip_fraction",
            "share of tokens whose ratio was clipped",
            keys=("pg_clipfrac",),
            often_constant=True,
            look_at="counting",
        ),
        Metric(
            "length",
            "mean length of the completions, in tokens",
            changes_by_factors=True,
            look_at="counting",
        ),
        Metric(
            "truncated_fraction",
            "share of completions cut at the length limit",
            often_constant=True,
            look_at="counting",
        ),
        Metric(
            "zero_std_fraction",
            "share of groups in which all rewards are equal",
            often_constant=True,
            look_at="counting",
        ),
        Metric(
            "reward_margin",
            "implicit reward of the chosen answers over that of the rejected ones (DPO, KTO)",
            only_shown=True,
        ),
        Metric(
            "reward_accuracy",
            "share of pairs whose chosen answer has the higher implicit reward (DPO)",
            only_shown=True,
        ),
        Metric(
            "rollout_logp_gap",
            "distance of the trainer's log-probabilities from the sampler's, mean over tokens",
            only_shown=True,
        ),
        Metric(
            "kl_coef",
            "weight of the KL penalty",
            changes_by_factors=True,
            often_constant=True,
        ),
    )
}

# Keys with the rewards of the single samples of a step. `samples.py` computes statistics of them.
# The keys of these statistics are the last of each metric above, so that the trainer's own values
# take precedence.
SAMPLES = frozenset(
    prefix + key for key in ("rewards", "env/reward_dist") for prefix in ("", PREFIX)
)

# Hugging Face trainers log their step under this key in every row for a tracker.
TRAINER_STEP = "train/global_step"

# Three different quantities that are all called KL.
KLS = ("kl", "kl_old", "kl_rollout")

# The metrics of the probe, in their order.
PROBE = ("kl_probe", "entropy_probe", "top_token_changed")


def is_reward_component(name: str) -> bool:
    """Return whether a name belongs to one of several rewards, as TRL logs its reward functions.

    >>> is_reward_component("rewards/format/mean"), is_reward_component("rewards/mean")
    (True, False)
    """
    parts = name.removeprefix(PREFIX).split("/")
    return len(parts) == 3 and parts[0] == "rewards" and parts[2] == "mean"
