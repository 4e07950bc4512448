"""The bounded excuse: when a KL that has risen for good may be taken for the new normal.

A KL that the reward pays for, that is far from its budget and has not cost entropy is growth, not
damage. Measured on labelled runs: without bounds this excuse hides most explosions.
"""

from __future__ import annotations

import math

from klarm.incidents.recovery import LEVEL_ROWS
from klarm.incidents.trends import RecentRows

_KL, _REWARD, _ENTROPY = "kl", "reward", "entropy"
_NOISE_UNITS = 0.5  # by which the reward is above its level before
_BUDGET_SHARE = 0.5  # under which KL stays
_ENTROPY_SHARE = 0.7  # of its level before, above which entropy stays


class Excuse:
    """Follows one settled incident, and must hold at every row."""

    def __init__(self, recent: RecentRows, started: int, budget_nats: float) -> None:
        self._recent = recent
        self._budget = budget_nats
        self._reward, self._noise = recent.level_and_noise(_REWARD, started - 1)
        self._entropy = recent.level(_ENTROPY, started - 1)
        self.held = True

    def look(self) -> None:
        """Take in one more row."""
        self.held = self.held and self.holds()

    def holds(self, before: float = math.inf) -> bool:
        """Tell whether it holds at the last row, or at the last one before a step."""
        # A reward that is not logged excuses nothing: comparisons with NaN are false. Many trainers
        # log no entropy; then there is none to hold.
        kl, reward, entropy = (
            self._recent.latest(metric, LEVEL_ROWS, before) for metric in (_KL, _REWARD, _ENTROPY)
        )
        return (
            reward > self._reward + _NOISE_UNITS * self._noise
            and abs(kl) < _BUDGET_SHARE * self._budget
            and math.isfinite(self._budget)
            and (math.isnan(entropy) or entropy >= _ENTROPY_SHARE * self._entropy)
        )
