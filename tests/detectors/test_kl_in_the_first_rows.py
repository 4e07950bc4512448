"""How soon an explosion of KL early in a run is found, as docs/without-kl.md has it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from klarm.config import load
from klarm.monitor import Monitor

PAGE = Path(__file__).parents[2] / "docs" / "without-kl.md"
BEGINS = (15, 25, 40, 60)
ROWS, SEEDS = 15, 10  # rows from the change on, and runs

# By how much KL is multiplied in the nth row of a change.
CHANGES: dict[str, Callable[[int], float]] = {
    "×1.3 per row": lambda n: 1.3**n,
    "×2 per row": lambda n: 2.0**n,
    "×30 at once": lambda n: 30.0,
}


def rows_until_found(change: Callable[[int], float], begins: int, seed: int) -> int | None:
    """Return after how many rows an incident on KL opens, in a run that learns to a level."""
    noise = random.Random(seed)
    config = load(recorded={})
    monitor = Monitor("early", config.detectors(), rules=config.incident_rules())
    for row in range(begins + ROWS):
        kl = 0.01 * noise.lognormvariate(0.0, 0.15) * (1.0 - math.exp(-(row + 1) / 8))
        kl *= change(row - begins + 1) if row >= begins else 1.0
        monitor.log({"kl": kl, "reward": noise.gauss(0.3, 0.03)}, row)
        if any(incident.signal == "kl" and incident.opened for incident in monitor.incidents):
            return row - begins
    return None


@pytest.mark.parametrize("named", CHANGES)
def test_an_early_explosion_is_found_as_documented(named: str) -> None:
    """In the first rows, klarm takes growth of KL for the start of learning."""
    cells = []
    for begins in BEGINS:
        found = [rows_until_found(CHANGES[named], begins, seed) for seed in range(SEEDS)]
        after = [rows for rows in found if rows is not None]
        span = " to ".join(map(str, sorted({min(after), max(after)}))) if after else ""
        soon = f", after {span} rows" if after else ""
        cells.append(f"{len(after)} of {SEEDS}{soon}")
    assert f"| {named} | {' | '.join(cells)} |" in PAGE.read_text(encoding="utf-8")
