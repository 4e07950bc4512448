"""Unsloth: TRL's trainers with a loss of its own, which clamps the log-ratio."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

UNSLOTH = Framework(
    "unsloth",
    keys={
        "kl": Row(
            "kl",
            Kind("reference", "k3", clamped=True),
            when_zero="set beta above 0",
            generic=True,
        ),
    },
)
