"""The bounded excuse: when a KL that has risen for good may be taken for the new normal.

A KL that the reward pays for, that is far from its budget and has not cost entropy is growth, not
damage. Measured on labelled runs: without bounds this excuse hides most explosions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from klarm.detectors import Detector, KLBudgetDetector
from klarm.incidents.recovery import LEVEL_ROWS
from klarm.incidents.trends import RecentRows
from klarm.metrics import PROBE

KL, PROBED = "kl", PROBE[0]  # the trainer's, and that of klarm's probe
_REWARD, _ENTROPY = "reward", "entropy"
# The reward pays if it is this many noise units above its level over so many rows before. Against
# the level of the whole run, a reward that has long stopped rising would still count as paying.
_REWARD_ROWS, _NOISE_UNITS = 50, 0.6
_BUDGET_SHARE = 0.5  # under which KL stays
_ENTROPY_SHARE = 0.7  # of its level before, above which entropy stays


def kl_budgets(detectors: Iterable[Detector]) -> dict[str, float]:
    """Return the budget in nats of either KL; infinite where none is set."""
    found = {KL: math.inf, PROBED: math.inf}
    for detector in detectors:
        if isinstance(detector, KLBudgetDetector):
            kl = detector.watches[0]
            found[kl] = min(found.get(kl, math.inf), detector.budget_nats)
    return found


class Excuse:
    """Follows one settled incident, and must hold at every row."""

    def __init__(self, recent: RecentRows, started: int, budget_nats: float, kl: str = KL) -> None:
        """Follow a KL, the trainer's or the probe's, from the start of its incident."""
        self._recent = recent
        self._kl = kl
        self._budget = budget_nats
        self._reward, self._noise = recent.level_and_noise(_REWARD, started - 1, _REWARD_ROWS)
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
            self._recent.latest(metric, LEVEL_ROWS, before)
            for metric in (self._kl, _REWARD, _ENTROPY)
        )
        return (
            reward > self._reward + _NOISE_UNITS * self._noise
            and abs(kl) < _BUDGET_SHARE * self._budget
            and math.isfinite(self._budget)
            and (math.isnan(entropy) or entropy >= _ENTROPY_SHARE * self._entropy)
        )
