"""Tinker: the cookbook's recipes."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

TINKER = Framework(
    "tinker",
    keys={
        "kl_policy_base": Row("kl", Kind("reference", "k1")),
        "optim/kl_sample_train_v2": Row("kl_rollout", Kind("rollout", "k2")),
        "optim/kl_sample_train_v1": Row("kl_rollout", Kind("rollout", "k1")),
    },
    plain_keys={
        "entropy": ("optim/entropy",),
        "reward": ("env/all/reward/total",),
    },
    other_names=("tinker-cookbook",),
)
