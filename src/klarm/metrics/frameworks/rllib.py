"""RLlib: the exact KL to the policy before the update, if it is enabled."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

RLLIB = Framework(
    "rllib",
    keys={
        "learners/*/mean_kl_loss": Row(
            "kl_old", Kind("old", "exact", per="action"), when_zero="set use_kl_loss=True"
        ),
    },
)
