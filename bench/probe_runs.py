"""The runs of `make bench-probe`: which settings, and which seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framework_runs.run import Run, runs_of


def grpo(setting: str, seeds: Sequence[int], change: str, **options: Any) -> list[Run]:
    """Return GRPO runs of a setting; those with a jump are as `make framework-runs` has them."""
    chosen = {
        "healthy": seeds if change == "none" else (),
        "jump": seeds if change == "jump" else (),
    }
    return runs_of("trl", "GRPO", setting, **{"rows": 120, "beta": 0.0, **chosen, **options})


# No seed below 100 was looked at while the probe was built.
JUMPS = [
    *grpo("words", range(100, 104), "jump", learning_rate=5e-5, reward="words"),
    *grpo("letter", range(104, 108), "jump", learning_rate=2e-5, reward="letter"),
    *grpo("penalty", range(108, 112), "jump", learning_rate=3e-5, reward="penalty"),
    *grpo("cosine", range(112, 114), "jump", learning_rate=1e-4, reward="words",
          lr_scheduler_type="cosine", warmup_steps=10),
]  # fmt: skip
HEALTHY = [
    *grpo("words", range(200, 206), "none", learning_rate=5e-5, reward="words"),
    *grpo("letter", range(206, 212), "none", learning_rate=2e-5, reward="letter"),
    *grpo("sparse", range(212, 217), "none", learning_rate=5e-5, reward="sparse"),
    *grpo("cosine", range(217, 222), "none", learning_rate=1e-4, reward="words",
          lr_scheduler_type="cosine", warmup_steps=10),
    *grpo("penalty", range(222, 227), "none", learning_rate=3e-5, reward="penalty"),
    *grpo("chance", range(227, 231), "none", learning_rate=2e-5, reward="chance"),
    *grpo("beta-words", range(231, 236), "none", learning_rate=5e-5, reward="words", beta=0.04),
    *grpo("beta-letter", range(236, 240), "none", learning_rate=2e-5, reward="letter", beta=0.3),
]  # fmt: skip
# With a KL of the trainer's own, which rises tenfold. First those that a jump of the learning rate
# destroys.
DESTROYED = [
    *grpo("beta-words", range(300, 303), "jump", learning_rate=5e-5, reward="words", beta=0.04),
    *grpo("beta-letter", range(303, 306), "jump", learning_rate=2e-5, reward="letter", beta=0.04),
    *grpo("lora-words", range(306, 309), "jump", learning_rate=1e-3, reward="words", beta=0.04),
]
# Then those that learn steadily, and those whose learning rate rises only tenfold. Seeds, settings
# and measures were fixed before any of these runs was made; learning rates were chosen with seeds
# below 100.
STEADY = [
    *grpo("steady-words", range(400, 403), "none", learning_rate=5e-5, reward="words", beta=0.04),
    *grpo("steady-letter", range(403, 406), "none", learning_rate=5e-5, reward="letter", beta=0.04),
    *grpo("lora-steady", range(406, 409), "none", learning_rate=3e-4, reward="words", beta=0.04),
]
TENFOLD = [
    *grpo("tenfold-words", range(409, 412), "jump", learning_rate=2e-5, reward="words", beta=0.04,
          jump_factor=10.0),
    *grpo("lora-tenfold", range(412, 415), "jump", learning_rate=2e-4, reward="words", beta=0.04,
          jump_factor=10.0),
]  # fmt: skip
AGAINST = {"steady": STEADY, "×10": TENFOLD, "×100": DESTROYED}
# To compare ways of measuring; nothing else is reported on them.
VARIANTS = [
    *grpo("words", [51], "none", learning_rate=5e-5, reward="words", beta=0.04),
    *grpo("letter", [54], "none", learning_rate=5e-5, reward="letter", beta=0.04),
    *grpo("lora-words", [52], "none", learning_rate=3e-4, reward="words", beta=0.04),
    *grpo("words", [55], "jump", learning_rate=2e-5, reward="words", beta=0.04, jump_factor=10.0),
    *grpo("lora-words", [53], "jump", learning_rate=2e-4, reward="words", beta=0.04,
          jump_factor=10.0),
    *grpo("words", [56], "jump", learning_rate=5e-5, reward="words", beta=0.04),
    *grpo("letter", [57], "jump", learning_rate=2e-5, reward="letter", beta=0.04),
    *grpo("lora-words", [50], "jump", learning_rate=1e-3, reward="words", beta=0.04),
]  # fmt: skip
