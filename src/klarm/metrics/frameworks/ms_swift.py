"""ms-swift: GRPO with KL in the loss, or in the reward."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

MS_SWIFT = Framework(
    "ms-swift",
    keys={"kl": Row("kl", Kind("reference", "k3", clamped=True), generic=True)},
    trainers={
        "kl_in_reward": {"kl": Row("kl", Kind("reference", "k1", per="sequence"), generic=True)},
    },
)
