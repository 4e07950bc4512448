"""Stable-Baselines3: a policy over actions, and minus the entropy as `entropy_loss`."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

SB3 = Framework(
    "sb3",
    keys={
        "approx_kl": Row("kl_old", Kind("old", "k3", per="action"), generic=True),
        "entropy_loss": Row("entropy", negated=True, generic=True),
        # PPO's, and A2C's: both minimise it in one sum with the loss of the value function.
        "policy_gradient_loss": Row("actor_loss", generic=True),
        "policy_loss": Row("actor_loss", generic=True),
    },
    other_names=("stable-baselines3",),
)
