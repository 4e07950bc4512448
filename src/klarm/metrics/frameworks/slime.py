"""slime: `entropy_loss` is the entropy itself."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

SLIME = Framework(
    "slime",
    keys={
        "train/kl_loss": Row("kl", Kind("reference"), generic=True),
        "ppo_kl": Row("kl_old", Kind("old", "k1"), generic=True),
        "entropy_loss": Row("entropy", generic=True),
    },
    plain_keys={"reward": ("rollout/raw_reward",)},
)
