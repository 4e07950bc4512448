"""What an alert says about a value that is NaN or infinite, and where to look first."""

from __future__ import annotations

import math
import re
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


# What such advice says about a single value. The rest of it holds once there are more.
_IF_SINGLE = re.compile(r"^Check the next rows\. If .*? there, ")


def when_not_finite(metric: str) -> str:
    """Return what to do about a metric that is NaN or infinite."""
    known = METRICS.get(metric)  # a metric of the user's own is not there
    return ADVICE["numerics" if known is None else known.look_at]


def not_finite_message(metric: str, value: float) -> str:
    """Return what happened.

    >>> not_finite_message("kl", float("-inf"))
    'kl is minus infinity at this step; if it stays so, the run is broken.'
    """
    return f"{metric} is {_spelt(value)} at this step; if it stays so, the run is broken."


def still_not_finite_message(metric: str, value: float) -> str:
    """Return what happened once values have not been finite in several rows.

    >>> still_not_finite_message("kl", float("nan"))
    'kl is still NaN.'
    """
    return f"{metric} is still {_spelt(value)}."


def when_still_not_finite(recommendation: str) -> str:
    """Return advice on a single value as it reads once there are more.

    >>> when_still_not_finite("Check the next rows. If KL is not finite there, stop the run.")
    'Stop the run.'
    """
    rest = _IF_SINGLE.sub("", recommendation)
    return rest[:1].upper() + rest[1:]


def _spelt(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinite" if value > 0 else "minus infinity"
