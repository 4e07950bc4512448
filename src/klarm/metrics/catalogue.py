"""The metrics that klarm knows: their names, their meaning and their keys in the frameworks.

Keys are spelled only here and in `frameworks`, which defines what some of them mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from klarm.metrics.frameworks import PREFIX
from klarm.metrics.kl_kind import Target

# The numerics of the update, how KL is estimated, the reward function, the logits, or how the
# metric is counted and averaged.
LookAt = Literal["numerics", "kl_estimate", "reward_function", "logits", "counting"]


@dataclass(frozen=True)
class Metric:
    """One canonical metric."""

    name: str
    meaning: str
    # Its keys in the frameworks. If a step has several of them, the first one here is used. A key
    # may also have the prefix `train/`; one that is only clear with the prefix has it here. A star
    # stands for a part that the user names.
    keys: tuple[str, ...] = ()
    # Why it may be missing, by framework; "" is for an unknown framework.
    when_missing: Mapping[str, str] = field(default_factory=dict)
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
    # Where to look first if it is NaN or infinite: what detectors/not_finite.py advises.
    look_at: LookAt = "numerics"


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
            when_missing={
                "": "most trainers log it only with a KL penalty",
                "trl": "GRPO logs it only with beta > 0; KlarmCallback(probe=True) measures one",
                "verl": "it is logged only with a KL penalty",
            },
            unlike=("kl_old", "kl_rollout"),
            when_zero="set the weight of the KL penalty above 0 (beta, kl_coef) or log no kl",
            target="reference",
            changes_by_factors=True,
            look_at="kl_estimate",
        ),
        Metric(
            "kl_old",
            "KL of the new policy to the one before the update",
            keys=(
                "approx_kl",
                "policy/approxkl_avg",
                "actor/ppo_kl",
                "ppo_kl",
                "ppo_actor/update/approx_kl/avg",
                "learners/*/mean_kl_loss",
            ),
            target="old",
            changes_by_factors=True,
            look_at="kl_estimate",
        ),
        Metric(
            "kl_rollout",
            "KL of the trainer's policy to the sampler's",
            keys=(
                "rollout_corr/k3_kl",
                "rollout_corr/kl",
                "vllm_kl",
                "gen_kl_error",
                "mismatch_kl/all/mean",
                "optim/kl_sample_train_v2",
                "optim/kl_sample_train_v1",
            ),
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
            keys=(
                "entropy/mean",
                "actor/entropy",
                "policy/entropy_avg",
                "policy/policy_entropy",
                "approx_entropy",
                "optim/entropy",
                "entropy/all/mean",
                "ppo_actor/update/entropy/avg",
                "learners/*/entropy",
            ),
            look_at="logits",
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
                "rollout/raw_reward",
                "reward/all/mean",
                "ppo_actor/task_reward/avg",
                "env_runners/episode_return_mean",
                "env/reward_mean",
                "rewards/mean",
                "env/reward_dist/mean",
            ),
            look_at="reward_function",
        ),
        Metric(
            "reward_std",
            "spread of the rewards",
            keys=("rollout/reward_std", "env/reward_std", "rewards/std", "env/reward_dist/std"),
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
            keys=(
                "actor/pg_loss",
                "policy_loss",
                "pg_loss",
                "policy/final_loss",
                "loss/mean",
                "policy_gradient_loss",
                "ppo_actor/update/actor_loss/avg",
                "learners/*/total_loss",
            ),
            changes_by_factors=True,
        ),
        Metric(
            "actor_loss",
            "loss of the policy alone, where that of the critic is minimised with it or beside it",
            keys=("learners/*/policy_loss",),
            changes_by_factors=True,
        ),
        Metric(
            "critic_loss",
            "loss of the critic or value function",
            keys=(
                "value_loss",
                "critic/vf_loss",
                "loss/value_avg",
                "vf_loss",
                "learners/*/vf_loss",
                "learners/*/qf_loss",
            ),
            changes_by_factors=True,
        ),
        Metric(
            "explained_variance",
            "share of the variance of returns that the value function explains: 1 at best",
            keys=("critic/vf_explained_var", "learners/*/vf_explained_var"),
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
            keys=(
                "actor/grad_norm",
                "actor_grad_norm",
                "optim/grad_norm",
                "policy/grad_norm",
                "ppo_actor/update/grad_norm",
                "learners/*/gradients_default_optimizer_global_norm",
            ),
            changes_by_factors=True,
        ),
        Metric(
            "learning_rate",
            "learning rate",
            keys=(
                "actor/lr",
                "lr",
                "actor_lr",
                "optim/lr",
                "policy/policy_lr",
                "learners/*/default_optimizer_learning_rate",
            ),
            changes_by_factors=True,
            often_constant=True,
        ),
        Metric(
            "clip_fraction",
            "share of tokens whose ratio was clipped",
            keys=(
                "clip_ratio/region_mean",
                "actor/pg_clipfrac",
                "pg_clipfrac",
                "ppo_clip_ratio",
                "policy/clipfrac_avg",
                "policy/loss_metrics/clip_ratio",
                "ppo_actor/update/clip_ratio/avg",
            ),
            often_constant=True,
            look_at="counting",
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
            changes_by_factors=True,
            look_at="counting",
        ),
        Metric(
            "truncated_fraction",
            "share of completions cut at the length limit",
            keys=(
                "completions/clipped_ratio",
                "response_length/clip_ratio",
                "rollout/truncated_rate",
            ),
            often_constant=True,
            look_at="counting",
        ),
        Metric(
            "zero_std_fraction",
            "share of groups in which all rewards are equal",
            keys=("frac_reward_zero_std",),
            often_constant=True,
            look_at="counting",
        ),
        Metric(
            "reward_margin",
            "implicit reward of the chosen answers over that of the rejected ones (DPO, KTO)",
            keys=("rewards/margins",),
            only_shown=True,
        ),
        Metric(
            "reward_accuracy",
            "share of pairs whose chosen answer has the higher implicit reward (DPO)",
            keys=("rewards/accuracies",),
            only_shown=True,
        ),
        Metric(
            "rollout_logp_gap",
            "distance of the trainer's log-probabilities from the sampler's, mean over tokens",
            keys=("sampling/sampling_logp_difference/mean",),
            only_shown=True,
        ),
        Metric(
            "kl_coef",
            "weight of the KL penalty",
            keys=(
                "objective/kl_coef",
                "actor/kl_coef",
                "actor/reward_kl_penalty_coeff",
                "learners/*/curr_kl_coeff",
            ),
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
