"""What an alert says about a value that is NaN or infinite, and where to look first."""

from __future__ import annotations

import math
from collections.abc import Mapping

from klarm.metrics import METRICS, LookAt

# What to do, by where to look first, which the catalogue of metrics says for each. One value may
# come from one bad batch, so the first thing to do is to see whether it stays so.
ADVICE: Mapping[LookAt, str] = {
    "numerics": (
        "Check the next rows. If this metric or the gradient norm is not finite there, stop the "
        "run, go back to the last good checkpoint, lower the learning rate, and look for an "
        "overflow: float16, advantages or ratios that are too large."
    ),
    "kl_estimate": (
        "Check the next rows. If KL or the loss is not finite there, stop the run, go back to the "
        "last good checkpoint, and look at how KL is estimated: log-ratios that are exponentiated "
        "before they are clamped, or probabilities of 0."
    ),
    "reward_function": (
        "Check the next rows. If this metric or the loss is not finite there, stop the run, go "
        "back to the last good checkpoint, and look at the reward function: a division by 0, a "
        "logarithm of 0, an answer that could not be parsed."
    ),
    "logits": (
        "Check the next rows. If entropy or the loss is not finite there, stop the run, go back to "
        "the last good checkpoint, and look at the logits: infinite ones, or the logarithm of a "
        "probability of 0, make entropy NaN."
    ),
    "counting": (
        "Check how this metric is counted and averaged: a mean over no values is NaN. The policy "
        "itself may be fine."
    ),
}


def when_not_finite(metric: str) -> str:
    """Return what to do about a metric that is NaN or infinite."""
    known = METRICS.get(metric)  # a metric of the user's own is not there
    return ADVICE["numerics" if known is None else known.look_at]


def not_finite_message(metric: str, value: float) -> str:
    """Return what happened.

    >>> not_finite_message("kl", float("-inf"))
    'kl is minus infinity at this step; if it stays so, the run is broken.'
    """
    spelt = "NaN" if math.isnan(value) else "infinite" if value > 0 else "minus infinity"
    return f"{metric} is {spelt} at this step; if it stays so, the run is broken."
