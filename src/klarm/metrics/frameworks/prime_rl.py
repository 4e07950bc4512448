"""prime-rl: logs minus the KL to the reference."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

PRIME_RL = Framework(
    "prime-rl",
    keys={
        "ref_kl": Row("kl", Kind("reference", "k1"), negated=True, generic=True),
        "ref_kl/mean": Row("kl", Kind("reference", "k1"), negated=True, generic=True),
        "mismatch_kl/all/mean": Row("kl_rollout", Kind("rollout", "k3")),
    },
    plain_keys={
        "entropy": ("entropy/all/mean",),
        "reward": ("reward/all/mean",),
    },
)
