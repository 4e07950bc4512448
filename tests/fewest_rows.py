"""How many rows each detector needs before it can say anything."""

from __future__ import annotations

import itertools
import random

from klarm.detectors import Detector
from klarm.types import Alert

MOST = 1_000  # rows that any detector may need

Row = dict[str, float]
# Every row at first, when detectors have just begun.
BREAKS_AT = [*range(20), *range(20, 60, 4)]

# The mean of each metric in a run that is well, and what it jumps to.
LEVELS = {
    "kl": (0.02, 50.0),
    "kl_probe": (0.02, 50.0),
    "kl_old": (0.005, 5.0),
    "kl_rollout": (0.001, 5.0),
    "entropy": (0.6, 1e-4),
    "reward": (1.0, -5.0),
    "reward_std": (0.3, 30.0),
    "advantage_std": (0.5, 50.0),
    "grad_norm": (0.5, 500.0),
    "loss": (0.2, 900.0),
    "length": (200.0, 9000.0),
    "learning_rate": (1e-6, 1e-3),
    "clip_fraction": (0.02, 0.95),
    "zero_std_fraction": (0.1, 1.0),
    "truncated_fraction": (0.01, 0.9),
}


def first_alert(
    kind: type[Detector], breaks_at: int, at_most: int, seed: int
) -> tuple[Alert | None, int]:
    """Return the first alert if everything breaks at one row, and its row; the limit if none is."""
    # Noise of its own for each metric: another metric changes nothing for the others.
    noise = {name: random.Random(f"{name} {seed}") for name in LEVELS}
    detector = kind()
    for number in range(at_most):
        broken = number >= breaks_at
        row = {
            name: levels[broken] * noise[name].lognormvariate(0.0, 0.05)
            for name, levels in LEVELS.items()
        }
        if broken and kind.name == "kl_negative":
            row["kl"] *= -1.0
        if broken and kind.name == "loss_nan":
            row["loss"] = float("nan")
        if broken and kind.name == "metric_lost":
            row = {"reward": row["reward"]}
        if alert := detector.update(number, row):
            return alert, number + 1
    return None, at_most


def fewest_rows(kind: type[Detector]) -> int:
    """Return the first row at which it can alert, however abrupt the change and wherever it is."""
    fewest = MOST
    for breaks_at, seed in itertools.product(BREAKS_AT, range(3)):
        fewest = min(fewest, first_alert(kind, breaks_at, fewest, seed)[1])
    return fewest
