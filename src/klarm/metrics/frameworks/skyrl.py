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
)
