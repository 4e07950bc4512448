"""AReaL: logs minus the KL to the policy before the update."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

# `ppo_actor/kl_rewards` is no KL but minus a KL times its weight, and is taken for none.
AREAL = Framework(
    "areal",
    keys={
        "ppo_actor/update/approx_kl/avg": Row("kl_old", Kind("old", "k1"), negated=True),
    },
)
