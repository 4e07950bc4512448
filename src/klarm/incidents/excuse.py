"""The bounded excuse: when a lasting rise of KL may be accepted as the new normal.

A higher KL is growth, not damage, if the reward has risen with it, if it is far below its budget
and if entropy has not collapsed. On labelled runs, the excuse without these bounds hides most
explosions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from klarm.detectors import Detector, KLBudgetDetector
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.recovery import LEVEL_ROWS
from klarm.metrics import PROBE

KL, PROBED = "kl", PROBE[0]  # as the trainer and as klarm's probe measure it
_REWARD, _ENTROPY = "reward", "entropy"
# The reward pays if it is this many noise units above its level over this many rows before.
# Compared with the whole run, a reward that stopped rising long ago would still count as paying.
_REWARD_ROWS, _MIN_REWARD_RISE = 50, 0.6
_MAX_BUDGET_SHARE = 0.5  # of KL
_MIN_ENTROPY_SHARE = 0.7  # of its level before the incident


def kl_budgets(detectors: Iterable[Detector]) -> dict[str, float]:
    """Return the budgets of both KLs in nats; infinite where none is set."""
    found = {KL: math.inf, PROBED: math.inf}
    for detector in detectors:
        if isinstance(detector, KLBudgetDetector):
            kl = detector.watches[0]
            found[kl] = min(found.get(kl, math.inf), detector.budget_nats)
    return found


class Excuse:
    """Follows one settled incident. It must hold in every row."""

    def __init__(self, recent: RecentRows, started: int, budget_nats: float, kl: str = KL) -> None:
        """Follow the KL of the trainer or of the probe from the start of its incident."""
        self._recent = recent
        self._kl = kl
        self._budget = budget_nats
        self._reward, self._noise = recent.level_and_noise(_REWARD, started - 1, _REWARD_ROWS)
        self._entropy = recent.level(_ENTROPY, started - 1)
        self.held = True

    def look(self) -> None:
        """Check the latest row."""
        self.held = self.held and self.holds()

    def holds(self, before: float = math.inf) -> bool:
        """Return whether it holds in the last row, or in the last row before a step."""
        # A reward that is not logged excuses nothing, because comparisons with NaN are false. Many
        # trainers log no entropy, so it is only checked where it is logged.
        kl, reward, entropy = (
            self._recent.latest(metric, LEVEL_ROWS, before)
            for metric in (self._kl, _REWARD, _ENTROPY)
        )
        return (
            reward > self._reward + _MIN_REWARD_RISE * self._noise
            and abs(kl) < _MAX_BUDGET_SHARE * self._budget
            and math.isfinite(self._budget)
            and (math.isnan(entropy) or entropy >= _MIN_ENTROPY_SHARE * self._entropy)
        )
