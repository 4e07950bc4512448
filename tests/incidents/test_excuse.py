"""The bounded excuse: which risen KL may be the new normal, and which may not."""

from __future__ import annotations

import math

from cases import over
from klarm.incidents.excuse import Excuse
from klarm.incidents.recent_rows import RecentRows

BUDGET = 10.0


def settled(**now: float) -> Excuse:
    """An incident that began at step 30, and twenty rows at a level since."""
    level = {"kl": 2.0, "reward": 2.0, "entropy": 1.0, **now}
    level = {name: value for name, value in level.items() if not math.isnan(value)}
    recent = RecentRows()
    for step in range(30):
        recent.add(step, {"kl": 0.1, "reward": 0.9 + 0.2 * (step % 2), "entropy": 1.0})
    made = Excuse(recent, 30, BUDGET)
    for step in range(30, 50):
        recent.add(step, level)
    made.look()
    return made


def test_a_kl_that_reward_pays_for_is_excused() -> None:
    """It is far from its budget and has cost no entropy."""
    assert settled().held


@over(
    "now",
    [
        {"reward": 1.0},  # as before
        {"kl": 5.0},  # half the budget
        {"entropy": 0.69},
        {"reward": math.nan},  # not logged any more
        {"entropy": 0.0},
    ],
)
def test_one_exceeded_bound_ends_the_excuse(now: dict[str, float]) -> None:
    """All of them must hold."""
    assert not settled(**now).held


def test_an_excuse_that_failed_once_does_not_come_back() -> None:
    """It must hold at every row."""
    recent = RecentRows()
    rows = [{"kl": 0.1, "reward": 0.9 + 0.2 * (step % 2), "entropy": 1.0} for step in range(30)]
    for step, row in enumerate(rows):
        recent.add(step, row)
    made = Excuse(recent, 30, BUDGET)
    made.look()  # the reward has not risen yet
    for step in range(30, 60):
        recent.add(step, {"kl": 2.0, "reward": 2.0, "entropy": 1.0})
        made.look()
    assert not made.held


def test_without_a_budget_nothing_is_excused() -> None:
    """Half of infinity bounds nothing."""
    recent = RecentRows()
    for step in range(30):
        recent.add(step, {"kl": 0.1, "reward": 0.9 + 0.2 * (step % 2), "entropy": 1.0})
    made = Excuse(recent, 30, math.inf)
    for step in range(30, 50):
        recent.add(step, {"kl": 2.0, "reward": 2.0, "entropy": 1.0})
    made.look()
    assert not made.held
