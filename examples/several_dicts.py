"""A step that is logged in several dicts, as NeMo-RL, SkyRL and prime-rl do: one step to klarm.

python examples/several_dicts.py [steps]; needs nothing but klarm.
"""

import random
import sys
from collections.abc import Mapping

import klarm

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200


class KlarmLogger:
    """Goes where such a framework keeps its loggers, for example `logger.loggers.append(...)`."""

    def __init__(self, run: str) -> None:
        self._monitor = klarm.init(run)

    def log_metrics(self, metrics: Mapping[str, object], step: int, prefix: str = "") -> None:
        """Take one dict of a step. The first value of a metric counts, in whichever dict it is."""
        named = {f"{prefix}/{key}" if prefix else key: value for key, value in metrics.items()}
        self._monitor.log(named, step)


logger = KlarmLogger("several-dicts")
rng = random.Random(0)
for step in range(STEPS):
    logger.log_metrics({"reward": 0.5 + rng.gauss(0, 0.05)}, step, prefix="train")
    logger.log_metrics({"kl_penalty": 0.02 + rng.gauss(0, 0.002)}, step, prefix="train")
    logger.log_metrics({"grad_norm": 1 + rng.gauss(0, 0.1)}, step, prefix="train")
    logger.log_metrics({"step_time": 3.1, "tokens_per_second": 9000.0}, step, prefix="timing")
klarm.finish()
