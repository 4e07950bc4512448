"""How many rows each detector needs before it can say anything, as docs/without-kl.md has it."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path

from cases import over
from klarm.detectors import CATALOGUE, Detector
from klarm.types import Alert

PAGE = Path(__file__).parents[2] / "docs" / "without-kl.md"

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


@over("kind", CATALOGUE)
def test_the_fewest_rows_are_as_documented(kind: type[Detector]) -> None:
    """However abrupt the change, and wherever in the run it comes."""
    lacking = not kind.watches_all and kind.reads[0] not in LEVELS
    assert not lacking, f"add {kind.reads[0]} to LEVELS in {Path(__file__).name}"
    fewest = 150
    for breaks_at, seed in itertools.product(BREAKS_AT, range(3)):
        fewest = min(fewest, first_alert(kind, breaks_at, fewest, seed)[1])
    assert fewest < 150, f"no jump in LEVELS makes {kind.name} alert: see `first_alert`"
    cells = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if line[:1] == "|"]
    said = {row[0].split("]")[0].strip(" ["): row for row in cells}
    assert kind.name in said, f"{PAGE} lacks a row for {kind.name}"
    assert said[kind.name][1].strip(" `") == kind.reads[0] or kind.watches_all
    rows = said[kind.name][2].strip()
    assert rows == str(fewest), f"{kind.name} can alert at row {fewest}; {PAGE} says {rows}"


@over("kind", CATALOGUE)
def test_an_alert_says_in_which_direction_its_metric_went(kind: type[Detector]) -> None:
    """Or messages would call its best value the worst."""
    alert, _ = first_alert(kind, 100, 300, seed=0)
    assert alert is not None
    value, usual = alert.metrics.get(kind.reads[0]), LEVELS.get(kind.reads[0], (0.0, 0.0))[0]
    if kind.watches_all or not isinstance(value, float) or not math.isfinite(value):
        return  # what is lost or not a number has no direction
    went = "higher" if value > usual else "lower"
    assert alert.worse == went, f"set `worse` of {kind.name}, or in its call of `_alert`"
