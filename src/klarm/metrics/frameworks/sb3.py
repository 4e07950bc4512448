"""Stable-Baselines3: a policy over actions, and minus the entropy as `entropy_loss`."""

from __future__ import annotations

from klarm.metrics.frameworks.advice import advice_on_episodes
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
    plain_keys={"reward": ("rollout/ep_rew_mean",)},
    other_names=("stable-baselines3",),
    advice=advice_on_episodes(
        learning_rate="learning_rate",
        epochs="n_epochs",
        update_limit="set target_kl, which ends an update early (0.02, for example)",
        clip_range="clip_range",
        entropy_bonus="ent_coef",
        gradient_clip="max_grad_norm",
        scale="scale rewards and observations with VecNormalize",
        find="VecCheckNan finds where they come from",
    ),
)
