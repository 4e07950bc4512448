"""TRL: `kl` depends on the trainer."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

TRL = Framework(
    "trl",
    keys={"kl": Row("kl", Kind("reference", "k3"), generic=True)},
    trainers={
        "rloo": {"kl": Row("kl", Kind("reference", "k1"), generic=True)},
        # Of completions that belong to other prompts.
        "kto": {"kl": Row("kl", Kind("reference", per="sequence", floored=True), generic=True)},
        "asyncgrpo": {"kl": Row("kl_old", Kind("old", "k3"), generic=True)},
        "ppo": {
            "objective/kl": Row("kl", Kind("reference", per="sequence")),
            "policy/approxkl_avg": Row("kl_old", Kind("old", "k2")),
        },
    },
)
