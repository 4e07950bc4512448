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
)
