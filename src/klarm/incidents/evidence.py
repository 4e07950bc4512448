"""Evidence: which alerts count, given what the other signals show.

A converged policy has low entropy, rewards spread when learning takes off, and KL rises while the
reward rises. Such alerts are recorded, but count only if something else is wrong, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from klarm.detectors import OTHER_METRIC, Excused
from klarm.incidents.excuse import KL, PROBED, Excuse
from klarm.incidents.excused import SMALL
from klarm.incidents.measured import Measured
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.recovery import LEVEL_ROWS

_REWARD = "reward"
# Signals of the update itself: an incident on one of them explains a KL better than the reward.
_UPDATES = ("gradient", "loss")
# KL is far from the reference above this share of its budget.
_FAR_SHARE = 0.5
# KL is near the reference below this share: the policy has hardly changed.
_NEAR_SHARE = 0.05
# The reward is at its best within this share of its range so far below its highest level.
_BEST_SHARE = 0.15
# The reward has lost much if it has fallen by more than this share of its range so far.
_LOST_SHARE = 0.3
# The reward has learnt if its range so far exceeds this many noise units.
_LEARNT_NOISE_UNITS = 2.0
# A loss must exceed more units: noise alone takes a level that far below the best of hundreds.
_LOST_NOISE_UNITS = 5.0
# After the reward has paid for a KL, levels up to this many times as high are normal.
_PAID_FACTOR = 1.5
# Weights of the exponential smoothing of the reward's level, and of its scatter around that level.
_WEIGHT, _SCATTER_WEIGHT = 0.1, 0.01
_FIRST = 10  # the level starts as the mean of this many rewards
_MIN_REWARDS = 5  # fewer do not show their scatter
_TO_STD = 1.2533  # from the mean absolute deviation of normal noise to its standard deviation


class Evidence:
    """Decides which alerts count, by what is logged on other signals.

    It only uses the steps before that of the alert, because a step may be logged in several dicts,
    in any order.
    """

    def __init__(
        self,
        recent: RecentRows,
        budget_nats: float,
        is_open: Callable[[str], bool],
        probe_budget_nats: float = math.inf,
    ) -> None:
        """Use recent rows, the KL budgets, and whether a signal has an incident."""
        self._recent = recent
        self._budgets = {KL: budget_nats, PROBED: probe_budget_nats}
        self._is_open = is_open
        # What may hold for a detector's kind of excuse, by the name of the reason.
        self._excuses: dict[Excused, dict[str, Callable[[Measured], bool]]] = {
            "solved": {"solved": self._is_solved},
            "taking_off": {"taking_off": self._takes_off},
            "harmless": {"harmless": self._is_harmless},
            "paid_for": {SMALL: self._is_small_change, "paid_for": self._is_paid_for},
        }
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._step: int | None = None  # the current step, and its reward
        self._reward = math.nan
        self._level = math.nan  # level of the reward before that step
        self._best = -math.inf
        self._lowest = math.inf
        # The highest level that the reward has paid for, by metric.
        self._paid_levels: dict[str, float] = {}
        self._rewards = 0  # number of rewards so far
        self._scatter = 0.0  # mean distance of the rewards from the level before them
        self.excused: dict[str, int] = {}  # the number of excused alerts, by detector

    def update(self, step: int, values: Mapping[str, float]) -> None:
        """Add what was logged at a step. This is called for every step."""
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
        if count <= _FIRST:  # one odd reward at the start is neither the best nor the lowest
            first = reward if count == 1 else self._level + away / count
            self._level = self._best = self._lowest = first
            return
        level = self._level = self._level + _WEIGHT * away
        if level > self._best:  # noqa: PLR1730  # faster than max
            self._best = level
        if level < self._lowest:  # noqa: PLR1730
            self._lowest = level

    def excuses(self, measured: Measured) -> str:
        """Return why other signals excuse an alert; empty if it counts, as one not finite does."""
        if not measured.is_finite:
            return ""
        excuses = self._excuses.get(measured.detector.excuse, {})
        why = next((name for name, holds in excuses.items() if holds(measured)), "")
        if why:
            name = measured.alert.detector
            self.excused[name] = self.excused.get(name, 0) + 1
        return why

    def _is_solved(self, _: Measured) -> bool:
        """Return whether the reward is at its best, with no sign in KL that it is being gamed."""
        at_best = self._below_best() <= _BEST_SHARE and self._has_learnt()
        return at_best and not self._kl_is_far()

    def _takes_off(self, measured: Measured) -> bool:
        """Return whether learning takes off: rewards spread and rise while KL is not far."""
        details = measured.alert.metrics
        split, longer = "reward_dip_p" in details, details.get(OTHER_METRIC) == "length"
        if measured.kind[1] == "lower" or split or longer:
            return False  # a take-off explains no fall, no split and no growing length
        return not self._kl_is_far()

    def _is_harmless(self, _: Measured) -> bool:
        """Return whether nothing else suffers: many healthy runs clip much."""
        return not self._is_open(KL) and not self._has_lost_much()

    def _is_paid_for(self, measured: Measured) -> bool:
        """Return whether the reward has risen with KL, and KL is far below its budget.

        Also if the reward has paid for a similar level before, because a slow test may report a
        level long after it was reached.
        """
        if not self._is_near(measured):
            return False
        step, kl = measured.alert.step, _kl_of(measured)
        budget, paid_level = self._budgets[kl], self._paid_levels.get(kl, 0.0)
        level = self._kl_level(measured)
        if Excuse(self._recent, step, budget, kl).holds(before=step):
            self._paid_levels[kl] = max(paid_level, level)
            return True
        within = level < min(_PAID_FACTOR * paid_level, _FAR_SHARE * budget)
        return within and measured.kind[1] == "higher"

    def _is_small_change(self, measured: Measured) -> bool:
        """Return whether this is a warning on a tiny KL while the reward does not suffer."""
        if measured.alert.severity == "critical" or measured.kind[1] != "higher":
            return False
        if not self._is_near(measured):
            return False
        budget = self._budgets[_kl_of(measured)]
        # Without a budget there is no scale, and without a reward nothing shows whether it suffers.
        if not math.isfinite(budget) or not math.isfinite(self._level):
            return False
        return self._kl_level(measured) < _NEAR_SHARE * budget and not self._has_lost_much()

    def _is_near(self, measured: Measured) -> bool:
        """Return whether KL is far below its budget, and no update is known to be broken."""
        limit = _FAR_SHARE * self._budgets[_kl_of(measured)]
        if measured.value is None or abs(measured.value) > limit:
            return False  # this value is far, whatever the recent level
        return not any(map(self._is_open, _UPDATES))  # otherwise a reward excuses nothing

    def _kl_level(self, measured: Measured) -> float:
        """Return the level of KL before an alert."""
        step = measured.alert.step
        return abs(self._recent.latest(_kl_of(measured), LEVEL_ROWS, before=step))

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
        """Return whether a difference between reward levels exceeds this many units of noise."""
        noise = _TO_STD * self._scatter * math.sqrt(_WEIGHT)  # the noise of the level
        return self._rewards >= _MIN_REWARDS and difference > units * noise

    @property
    def _before(self) -> float:
        return math.inf if self._step is None else self._step

    def _below_best(self) -> float:
        """Return how far the reward is below its best, as a share of its range so far."""
        covered = self._best - self._lowest
        return (self._best - self._level) / covered if covered > 0.0 else 0.0


def _kl_of(measured: Measured) -> str:
    """Return which KL an alert is about: the trainer's or the probe's."""
    return PROBED if measured.kind[0] == PROBED else KL
