"""What is said of a value that is NaN or infinite, and where to look first."""

from __future__ import annotations

import math
from collections.abc import Mapping

from klarm.metrics import METRICS, LookAt, WhenNotFinite

# The case of an alert once values have not been finite in several rows.
LASTING = "lasting"

# By where to look first, which the catalogue of metrics says for each.
_ADVICE: Mapping[LookAt, WhenNotFinite] = {
    "numerics": WhenNotFinite(
        "this metric or the gradient norm",
        "stop the run, go back to the last good checkpoint, lower the learning rate, and look for "
        "an overflow: float16, advantages or ratios that are too large.",
    ),
    "kl_estimate": WhenNotFinite(
        "KL or the loss",
        "stop the run, go back to the last good checkpoint, and look at how KL is estimated: "
        "log-ratios that are exponentiated before they are clamped, or probabilities of 0.",
    ),
    "reward_function": WhenNotFinite(
        "this metric or the loss",
        "stop the run, go back to the last good checkpoint, and look at the reward function: a "
        "division by 0, a logarithm of 0, an answer that could not be parsed.",
    ),
    "logits": WhenNotFinite(
        "entropy or the loss",
        "stop the run, go back to the last good checkpoint, and look at the logits: infinite ones, "
        "or the logarithm of a probability of 0, make entropy NaN.",
    ),
    "counting": WhenNotFinite(
        "",
        "Check how this metric is counted and averaged: a mean over no values is NaN. The policy "
        "itself may be fine.",
    ),
}


def look_at(metric: str) -> LookAt:
    """Return where to look first; a metric of the user's own is not in the catalogue."""
    known = METRICS.get(metric)
    return "numerics" if known is None else known.look_at


def when_not_finite(
    metric: str, own: Mapping[LookAt, WhenNotFinite], *, lasting: bool = False
) -> str:
    """Return what to do about a metric that is NaN or infinite.

    One value may come from one bad batch, so the first thing to do is to see whether it stays so.
    `own` is what the framework says.
    """
    where = look_at(metric)
    check, then = own.get(where) or _ADVICE[where]
    if check and not lasting:
        return f"Check the next rows. If {check} is not finite there, {then}"
    return f"{then[:1].upper()}{then[1:]}"


def what_is_not_finite(metric: str, value: float, *, lasting: bool = False) -> str:
    """Return what happened.

    >>> what_is_not_finite("kl", float("-inf"))
    'kl is minus infinity at this step; if it stays so, the run is broken.'
    >>> what_is_not_finite("kl", float("nan"), lasting=True)
    'kl is still NaN.'
    """
    spelt = "NaN" if math.isnan(value) else "infinite" if value > 0 else "minus infinity"
    if lasting:
        return f"{metric} is still {spelt}."
    return f"{metric} is {spelt} at this step; if it stays so, the run is broken."
