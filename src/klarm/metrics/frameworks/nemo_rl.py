"""NeMo RL: the penalty of its loss, and the error of its generation."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

NEMO_RL = Framework(
    "nemo-rl",
    keys={
        "train/kl_penalty": Row(
            "kl",
            Kind("reference", clamped=True),
            when_zero="set loss_fn.reference_policy_kl_penalty above 0",
        ),
        "gen_kl_error": Row("kl_rollout", Kind("rollout")),
    },
    plain_keys={
        "entropy": ("approx_entropy",),
        "length": ("mean_gen_tokens_per_sample",),
    },
    other_names=("nemo",),
)
