"""OpenRLHF: what its loggers get, where `entropy_loss` is the entropy itself."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

OPENRLHF = Framework(
    "openrlhf",
    keys={
        "kl": Row(
            "kl",
            Kind("reference", clamped=True),
            when_zero="train with a reference model and init_kl_coef above 0",
            generic=True,
        ),
        "ppo_kl": Row("kl_old", Kind("old", "k1"), generic=True),
        "vllm_kl": Row("kl_rollout", Kind("rollout", "k1")),
        "entropy_loss": Row("entropy", generic=True),
    },
    plain_keys={
        "reward": ("rollout/reward_mean",),
        "reward_std": ("rollout/reward_std",),
        "grad_norm": ("actor_grad_norm",),
        "learning_rate": ("actor_lr",),
        "clip_fraction": ("ppo_clip_ratio",),
        "length": ("rollout/response_length_mean",),
        "truncated_fraction": ("rollout/truncated_rate",),
    },
)
