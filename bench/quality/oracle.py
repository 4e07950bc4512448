"""The limit: a detector of explosions that knows everything except whether and when one begins.

It knows the healthy curve, the noise and how fast KL will double, and sees neither spikes nor
zeros nor rounding. Its score is the likelihood ratio of "it began at some row until now" to
"nothing began", at the best such row: a CUSUM, the quickest there is at a given false-alarm rate.
"""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from quality.generators import HEALTHY, Run, log_uniform

# The noise of the others is not log-normal.
_FAMILIES = ("plain", "s_shaped", "spiky")
_MAX_ROWS = 500


def knows(run: Run) -> bool:
    """Return whether the limit is defined for this run."""
    return run.family in _FAMILIES and run.kind in (HEALTHY, "explosion")


def scores(run: Run, seed: int) -> NDArray[np.float64]:
    """Return the oracle's score of every row; in a healthy run it looks for any doubling."""
    doubling = run.doubling or log_uniform(np.random.default_rng(seed), 5, 50)
    spread = run.log_sd * sqrt(1 - run.phi**2)
    innovation = run.residual / spread
    innovation[1:] -= run.phi * run.residual[:-1] / spread
    innovation[0] = run.residual[0] / run.log_sd
    before = _log_density(innovation, run.tail_df)
    count = len(innovation)
    best, since = np.full(count, -inf), np.zeros(count)
    last_shift = 0.0
    for age in range(min(int(10 * doubling), count, _MAX_ROWS)):
        shift = log(2) * (age + 1) / doubling
        expected = (shift - run.phi * last_shift) / spread
        last_shift = shift
        alive = count - age  # explosions that are this old before the run ends
        gain = _log_density(innovation[age:] - expected, run.tail_df) - before[age:]
        since[:alive] += gain
        np.maximum(best[age:], since[:alive], out=best[age:])
    return best


def _log_density(x: NDArray[np.float64], df: float) -> NDArray[np.float64]:
    """Return the logarithm of a unit-variance density, but for a constant."""
    if df == inf:
        return -0.5 * x * x
    return -(df + 1) / 2 * np.log1p(x * x / (df - 2))
