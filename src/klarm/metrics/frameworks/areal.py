"""AReaL: logs minus the KL to the policy before the update."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

# `ppo_actor/kl_rewards` is not used, because it is minus the KL times its weight.
AREAL = Framework(
    "areal",
    keys={
        "ppo_actor/update/approx_kl/avg": Row("kl_old", Kind("old", "k1"), negated=True),
    },
    plain_keys={
        "entropy": ("ppo_actor/update/entropy/avg",),
        "reward": ("ppo_actor/task_reward/avg",),
        "loss": ("ppo_actor/update/actor_loss/avg",),
        "grad_norm": ("ppo_actor/update/grad_norm",),
        "clip_fraction": ("ppo_actor/update/clip_ratio/avg",),
    },
)
