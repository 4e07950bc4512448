"""SkyRL: the estimator is chosen in its configuration."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

SKYRL = Framework(
    "skyrl",
    keys={
        "policy/policy_kl": Row("kl", Kind("reference")),
        "loss/avg_kl": Row("kl", Kind("reference")),
    },
    plain_keys={
        "entropy": ("policy/policy_entropy",),
        "reward": ("reward/avg_raw_reward",),
        "loss": ("policy/final_loss",),
        "learning_rate": ("policy/policy_lr",),
        "clip_fraction": ("policy/loss_metrics/clip_ratio",),
        "length": ("generate/avg_num_tokens",),
    },
)
