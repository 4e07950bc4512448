"""verl: the estimator of the KL loss is chosen in its configuration."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

VERL = Framework(
    "verl",
    keys={
        "actor/kl_loss": Row("kl", Kind("reference", clamped=True)),
        "actor/reward_kl_penalty": Row("kl", Kind("reference")),
        "actor/ppo_kl": Row("kl_old", Kind("old", "k1")),
        "rollout_corr/k3_kl": Row("kl_rollout", Kind("rollout", "k3")),
        "rollout_corr/kl": Row("kl_rollout", Kind("rollout", "k1")),
    },
    plain_keys={
        "entropy": ("actor/entropy",),
        "reward": ("critic/score/mean", "critic/rewards/mean"),
        "loss": ("actor/pg_loss",),
        "critic_loss": ("critic/vf_loss",),
        "explained_variance": ("critic/vf_explained_var",),
        "grad_norm": ("actor/grad_norm",),
        "learning_rate": ("actor/lr",),
        "clip_fraction": ("actor/pg_clipfrac",),
        "length": ("response_length/mean",),
        "truncated_fraction": ("response_length/clip_ratio",),
        "kl_coef": ("actor/kl_coef", "actor/reward_kl_penalty_coeff"),
    },
    when_missing={"kl": "it is logged only with a KL penalty"},
)
