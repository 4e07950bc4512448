"""RLlib: the exact KL to the policy before the update, if it is enabled."""

from __future__ import annotations

from klarm.metrics.frameworks.advice import advice_on_episodes
from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

RLLIB = Framework(
    "rllib",
    keys={
        "learners/*/mean_kl_loss": Row(
            "kl_old", Kind("old", "exact", per="action"), when_zero="set use_kl_loss=True"
        ),
    },
    plain_keys={
        "entropy": ("learners/*/entropy",),
        "reward": ("env_runners/episode_return_mean",),
        "loss": ("learners/*/total_loss",),
        "actor_loss": ("learners/*/policy_loss",),
        "critic_loss": ("learners/*/vf_loss", "learners/*/qf_loss"),
        "explained_variance": ("learners/*/vf_explained_var",),
        "grad_norm": ("learners/*/gradients_default_optimizer_global_norm",),
        "learning_rate": ("learners/*/default_optimizer_learning_rate",),
        "kl_coef": ("learners/*/curr_kl_coeff",),
    },
    advice=advice_on_episodes(
        learning_rate="lr",
        epochs="num_epochs",
        update_limit="lower kl_target or raise kl_coeff (with use_kl_loss=True)",
        clip_range="clip_param",
        entropy_bonus="entropy_coeff",
        gradient_clip="grad_clip",
        scale="scale the rewards of the environment",
    ),
)
