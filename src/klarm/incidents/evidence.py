"""Evidence: what the other signals say of an alert that one signal cannot decide.

A policy that has converged has low entropy; rewards spread when learning takes off; KL shifts when
the reward pays for it. Such alerts are recorded, and count only when something else is wrong too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from klarm.detectors import Excused
from klarm.incidents.excuse import KL, PROBED, Excuse
from klarm.incidents.measured import Measured
from klarm.incidents.recovery import LEVEL_ROWS
from klarm.incidents.trends import RecentRows

_REWARD = "reward"
# Signals of the update itself: an incident on one of them explains a KL better than the reward.
_UPDATES = ("gradient", "loss")
# Beyond this share of its budget KL is far.
_FAR_SHARE = 0.5
# Below this one it is near: what has become of the policy is hard to tell from what it was.
_NEAR_SHARE = 0.05
# Reward is at its best within this share of the range it has covered, and has lost much of what
# was learnt beyond that one.
_BEST_SHARE, _LOST_SHARE = 0.15, 0.3
# A range of fewer noise units than this shows no learning. Noise alone takes a level further from
# the best of hundreds.
_LEARNT_NOISE_UNITS, _LOST_NOISE_UNITS = 2.0, 5.0
# What was paid for once is normal up to so many times that level.
_PAID_FACTOR = 1.5
# The reward's level and its scatter about that: exponentially smoothed, so much by each value.
_WEIGHT, _SCATTER_WEIGHT = 0.1, 0.01
# The level begins as the mean of so many. So many show how far rewards scatter; the mean distance
# of normal noise from its level, times this, is its standard deviation.
_FIRST, _MIN_REWARDS, _TO_STD = 10, 5, 1.2533


class Evidence:
    """Tells, from what is logged on other signals, which alerts count.

    It looks at the steps before that of the alert: the dicts of one step may come in any order.
    """

    def __init__(
        self,
        recent: RecentRows,
        budget_nats: float,
        is_open: Callable[[str], bool],
        probe_budget_nats: float = math.inf,
    ) -> None:
        """Judge by recent rows, the budgets of KL, and which signals have an incident."""
        self._recent = recent
        self._budgets = {KL: budget_nats, PROBED: probe_budget_nats}
        self._is_open = is_open
        self._excuses: dict[Excused, Callable[[Measured], bool]] = {
            "solved": self._is_solved,
            "taking_off": self._takes_off,
            "harmless": self._is_harmless,
            "paid_for": self._is_paid_for,
        }
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._step: int | None = None  # the step under way, and its reward
        self._reward = math.nan
        self._level = math.nan  # of the reward, before that step
        self._best = -math.inf
        self._lowest = math.inf
        self._paid_levels: dict[str, float] = {}  # by KL, that the reward has paid for
        self._rewards = 0  # so many so far
        self._scatter = 0.0  # their mean distance from the level before them

    def update(self, step: int, values: Mapping[str, float]) -> None:
        """Take in what was new at a step. Every step comes here."""
        if step != self._step:
            if self._reward - self._reward == 0.0:
                self._learn(self._reward)
            self._step, self._reward = step, math.nan
        reward = values.get(_REWARD)
        if reward is not None:
            self._reward = reward

    def _learn(self, reward: float) -> None:
        count = self._rewards = self._rewards + 1
        away = reward - self._level if count > 1 else 0.0
        weight = 1.0 / count if count * _SCATTER_WEIGHT < 1.0 else _SCATTER_WEIGHT
        self._scatter += weight * (abs(away) - self._scatter)
        if count <= _FIRST:  # a single odd reward at the start is no best, and no low
            first = reward if count == 1 else self._level + away / count
            self._level = self._best = self._lowest = first
            return
        level = self._level = self._level + _WEIGHT * away
        if level > self._best:  # noqa: PLR1730  # quicker than max
            self._best = level
        if level < self._lowest:  # noqa: PLR1730
            self._lowest = level

    def excuses(self, said: Measured) -> bool:
        """Tell whether an alert does not count, given the rest. One that is not finite does."""
        excuse = self._excuses.get(said.detector.excuse)
        return excuse is not None and said.is_finite and excuse(said)

    def _is_solved(self, _: Measured) -> bool:
        """The reward is at its best, and KL shows no sign that it is being gamed."""
        at_best = self._below_best() <= _BEST_SHARE and self._has_learnt()
        return at_best and not self._kl_is_far()

    def _takes_off(self, said: Measured) -> bool:
        """Rewards spread and rise when learning starts; KL would be far if they were gamed."""
        told = said.alert.metrics
        if said.kind[1] == "lower" or "reward_dip_p" in told or told.get("while") == "length":
            return False  # that it falls, that rewards have split or buy length, is another matter
        return not self._kl_is_far()

    def _is_harmless(self, _: Measured) -> bool:
        """Much is clipped in many a healthy run; a harmful update shows elsewhere, too."""
        return not self._is_open(KL) and not self._has_lost_much()

    def _is_paid_for(self, said: Measured) -> bool:
        """The reward pays for a KL that is far from its budget, or has paid for one as high.

        Or there is next to nothing to pay for.
        A slow test speaks of a level long after it was reached.
        """
        step, kl = said.alert.step, PROBED if said.kind[0] == PROBED else KL
        budget, paid_level = self._budgets[kl], self._paid_levels.get(kl, 0.0)
        if said.value is None or abs(said.value) > _FAR_SHARE * budget:
            return False  # it is far already, whatever its level of late
        if any(map(self._is_open, _UPDATES)):
            return False  # the update itself is broken, and no reward is worth that
        level = abs(self._recent.latest(kl, LEVEL_ROWS, before=step))
        if self._is_small_change(said, level, budget):
            return True
        if Excuse(self._recent, step, budget, kl).holds(before=step):
            self._paid_levels[kl] = max(paid_level, level)
            return True
        within = level < min(_PAID_FACTOR * paid_level, _FAR_SHARE * budget)
        return within and said.kind[1] == "higher"

    def _is_small_change(self, said: Measured, level: float, budget: float) -> bool:
        """A KL that is next to nothing may multiply as long as the reward does not suffer."""
        if said.alert.severity == "critical" or said.kind[1] != "higher":
            return False
        # Without a budget nothing is near, and without a reward nobody can know.
        known = math.isfinite(budget) and math.isfinite(self._level)
        return known and level < _NEAR_SHARE * budget and not self._has_lost_much()

    def _has_lost_much(self) -> bool:
        return self._below_best() > _LOST_SHARE and self._is_clear(
            self._best - self._level, _LOST_NOISE_UNITS
        )

    def _kl_is_far(self) -> bool:
        if self._is_open(KL):
            return True
        return any(
            abs(self._recent.latest(kl, LEVEL_ROWS, before=self._before)) > _FAR_SHARE * budget
            for kl, budget in self._budgets.items()
        )

    def _has_learnt(self) -> bool:
        return self._is_clear(self._best - self._lowest, _LEARNT_NOISE_UNITS)

    def _is_clear(self, difference: float, units: float) -> bool:
        """Tell whether two levels of the reward differ by so many units of its noise."""
        noise = _TO_STD * self._scatter * math.sqrt(_WEIGHT)  # that of the level
        return self._rewards >= _MIN_REWARDS and difference > units * noise

    @property
    def _before(self) -> float:
        return math.inf if self._step is None else self._step

    def _below_best(self) -> float:
        """Return how far below its best the reward is, as a share of the range it has covered."""
        covered = self._best - self._lowest
        return (self._best - self._level) / covered if covered > 0.0 else 0.0
