"""The playbook: patterns of metrics that move together, their likely cause and what to do.

A test verifies that the table in `docs/playbook.md` says the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from math import inf

from msgspec.structs import replace

from klarm.incidents.movement import Movement
from klarm.incidents.pattern import (
    BROKEN,
    DOWN,
    KL,
    PROBED,
    STILL_OR_DOWN,
    UP,
    Circumstances,
    Pattern,
    as_patterns_see,
)
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.trends import not_finite_since
from klarm.types import Event

# KL is far from the reference above this share of its budget.
FAR = 0.5
# The remedy while a single value is not finite: one bad batch or estimate may have caused it, and a
# trainer that skips it is fine.
IF_SINGLE = (
    "Check the next rows. If values there are not finite either, stop, and go back to the last "
    "good checkpoint."
)

# What comes before a remedy that does not go back, if an incident is critical and KL has exploded:
# hardly any run returns from there by itself. On these signals, any rise of KL counts.
_ON_UPDATES = (KL, "gradient")
GO_BACK_FIRST = "Go back to a checkpoint {before}. Before you continue, "

JUMP_NOT_RULED_OUT = "learning_rate is not logged, so klarm cannot rule out that it jumped."

# What two patterns share: with larger gradients, KL or the loss shows that updates do harm.
_TOO_LARGE = "updates have become too large: rewards, advantages or loss may be on another scale"
_UNDO_AND_COMPARE = (
    "Go back to a checkpoint {before}. Then compare rewards, advantages and loss "
    "with those before, and lower the learning rate or clip gradients at a smaller norm."
)

RATE_RAISED = "learning rate raised"  # checkpoints that were saved since then are unsafe

# The first pattern that fits is reported, so specific ones come before general ones.
PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "reward broken",
        ("reward",),
        {"reward": BROKEN},
        "the reward function returned something that is not finite",
        "Go back to a checkpoint from before it: updates with such a reward are unsafe. Then look "
        "for a division by 0, a logarithm of 0 or an answer that could not be parsed.",
        returns="first",
    ),
    Pattern(
        RATE_RAISED,
        ("kl", "gradient", "entropy", "reward", "loss", "advantage", "length"),
        {"learning_rate": UP},
        "the learning rate was raised",
        "Go back to a checkpoint {before}, and lower the learning rate.",
        cause_metric="learning_rate",
        returns="first",
    ),
    Pattern(
        "numbers broken",
        ("loss", "gradient", "kl"),
        {"loss": BROKEN},
        "a numerical overflow",
        "Stop, and go back to the last good checkpoint. Then clamp log-ratios before they are "
        "exponentiated, and look for logits or advantages that overflow.",
        returns="later",
    ),
    Pattern(
        "KL broken",
        ("kl",),
        {"kl": BROKEN},
        "an overflow in the estimate of KL",
        "Stop, and go back to the last good checkpoint. Then clamp log-ratios before they are "
        "exponentiated.",
        returns="later",
    ),
    Pattern(
        "gradients broken",
        ("gradient",),
        {"grad_norm": BROKEN},
        "an overflow in the backward pass",
        "Check whether the loss scaler of float16 skips these steps and recovers. If not, go back "
        "to a checkpoint from before them, and use bfloat16.",
        returns="later",
    ),
    Pattern(
        "learning rate too high from the start",
        ("kl", "gradient", "entropy", "reward", "loss", "advantage"),
        {},
        "the learning rate was too high from the start, as the policy broke down within its first "
        "30 rows",
        "Start again with a learning rate ten times lower. If only KL rose, a stronger KL penalty "
        "may be enough.",
        only="early",
        returns="later",
    ),
    Pattern(
        "trainer and sampler disagree",
        ("kl", "reward", "entropy"),
        {"kl_rollout": UP},
        "the sampler's policy is not the trainer's",
        "Check that the sampler gets the weights of the trainer. Then compare the "
        "log-probabilities of both.",
    ),
    Pattern(
        "collapsed",
        ("reward", "entropy", "advantage"),
        {"reward_std": DOWN, "grad_norm": DOWN},
        "samples get nearly the same reward, so there is hardly any gradient left",
        "Go back to a checkpoint from before the collapse: without a gradient, no setting helps.",
        returns="first",
    ),
    Pattern(
        "length hack",
        ("length", "reward", "entropy", "kl", "gradient"),
        {"length": UP, "reward": UP},
        "the reward pays for length",
        "Make the reward neutral to length, or penalise truncated samples.",
        min_factor={"length": 2.0},
    ),
    Pattern(
        "reward hacking",
        ("kl", "reward", "entropy"),
        {"reward": UP, "entropy": DOWN},
        "the policy has found what the reward pays for and writes little else",
        "Stop, and read some samples. Then go back to a checkpoint {before}, and "
        "fix the reward or raise the KL penalty.",
        only="far",
        like_a_jump=True,
        returns="later",
    ),
    Pattern(
        "longer for nothing",
        ("length",),
        {"length": UP, "reward": STILL_OR_DOWN},
        "completions grow more than the reward justifies: padding, repetition or a missing end "
        "token",
        "Read some of the longest samples. If they repeat themselves or do not end, penalise "
        "truncated ones.",
    ),
    Pattern(
        "loss bursts first",
        ("kl", "gradient"),
        {"loss": UP, "kl": UP},
        "ratios or log-probabilities that are not clamped",
        "Clamp ratios and log-probabilities, and check them for outliers.",
        order=("loss", "kl"),
    ),
    Pattern(
        "falling apart",
        ("kl", "reward", "entropy"),
        {"entropy": UP, "kl": UP, "reward": DOWN},
        "the policy becomes noise: updates are too large, or samples come from another policy",
        "Go back to a checkpoint {before}, and lower the learning rate. If it "
        "happens again, check that the sampler has the trainer's weights.",
        returns="first",
    ),
    Pattern(
        "gradients first",
        ("kl", "gradient", "reward"),
        {"grad_norm": UP, "kl": UP},
        "updates that are too large",
        "Lower the learning rate, or clip gradients at a smaller norm.",
        order=("grad_norm", "kl"),
    ),
    Pattern(
        "past the optimum",
        ("kl", "reward"),
        {"kl": UP, "reward": DOWN},
        "the policy was pushed past the optimum by a learning rate that is too high or a KL "
        "penalty that is too low",
        "Go back to a checkpoint {before}, and continue with a lower learning rate.",
        not_at_once="reward",
        returns="first",
    ),
    Pattern(
        "KL far ahead of the reward",
        ("kl",),
        {"kl": UP, "reward": ("flat",)},
        "KL has used over half its budget, and the reward does not justify it",
        "Go back to a checkpoint {before}, and lower the learning rate or raise the KL penalty.",
        only="far",
        cause_if_over="KL has exceeded its budget, and the reward does not justify it",
        returns="first",
    ),
    Pattern(
        "KL ahead of the reward",
        ("kl",),
        {"kl": UP, "reward": ("flat",)},
        "KL rises faster than the reward so far: the learning rate may be too high or the KL "
        "penalty too low",
        "Watch the reward. If it does not rise soon, lower the learning rate or raise the KL "
        "penalty.",
        only="harmless",
    ),
    Pattern(
        "KL runs away from the reward",
        ("kl",),
        {"kl": UP, "reward": ("flat",)},
        "KL rises much faster than the reward: the learning rate is too high or the KL penalty too "
        "low",
        "Lower the learning rate or raise the KL penalty. If KL still does not level off, go back "
        "to a checkpoint {before}.",
        returns="later",
    ),
    Pattern(
        "take-off",
        ("kl",),
        {"kl": UP, "reward": UP},
        "the policy learns something new, or begins to game the reward",
        "Read some samples. If they are good and KL levels off, accept the new level.",
        only="harmless",
    ),
    Pattern(
        "reward bought with KL",
        ("kl", "gradient"),
        {"kl": UP, "reward": UP},
        "KL rises out of proportion to the reward: either the policy games the reward, or the "
        "learning rate is too high",
        "Read the samples with the highest rewards. If they are bad, go back and fix the reward, "
        "otherwise lower the learning rate or raise the KL penalty.",
        like_a_jump=True,
        returns="later",
    ),
    Pattern(
        "gradients and KL",
        ("gradient",),
        {"kl": UP, "grad_norm": UP},
        _TOO_LARGE,
        _UNDO_AND_COMPARE,
        only="critical",
        like_a_jump=True,
        returns="first",
    ),
    Pattern(
        "gradients and loss",
        ("gradient",),
        {"loss": UP, "grad_norm": UP},
        _TOO_LARGE,
        _UNDO_AND_COMPARE,
        only="critical",
        like_a_jump=True,
        returns="first",
    ),
    Pattern(
        "narrowing",
        ("entropy",),
        {"entropy": DOWN, "reward": STILL_OR_DOWN},
        "too little exploration or a learning rate that is too high: the policy loses diversity "
        "faster than the reward justifies",
        "Compare several samples of the same prompt. If they look alike, lower the learning rate, "
        "add an entropy bonus or raise the sampling temperature.",
    ),
)


# The names of patterns that fit a raised learning rate, too, if it is not logged.
LIKE_A_JUMP = frozenset(pattern.name for pattern in PATTERNS if pattern.like_a_jump)


def diagnose(
    movements: Iterable[Movement],
    signal: str,
    at: Circumstances = Circumstances(),  # noqa: B008  # it is immutable
    *,
    budget: float = inf,
    probe_budget: float = inf,
) -> Pattern | None:
    """Return the first pattern that fits what moved and explains an incident on this signal.

    Its cause and remedy are those for these circumstances. The pattern of an earlier diagnosis is
    kept while nothing contradicts it, unless one before it in the playbook fits now.
    """
    movements = list(movements)
    budgets = {KL: budget, PROBED: probe_budget}
    far = any(abs(m.level) > FAR * budgets.get(m.metric, inf) for m in movements)
    at, movements = at._replace(far=far), as_patterns_see(movements)
    explaining = (pattern for pattern in PATTERNS if signal in pattern.explains)
    fitting = (p for p in explaining if p.fits(movements, at) or p.still_fits(movements, at))
    found = next(fitting, None)
    if found is None:
        return None
    if at.over and found.cause_if_over:
        found = dataclasses.replace(found, cause=found.cause_if_over)
    risen = any(m.metric == KL and m.lately == "up" for m in movements)
    if at.critical and (far or (signal in _ON_UPDATES and risen)) and not found.returns:
        first = f"{GO_BACK_FIRST}{found.remedy[:1].lower()}{found.remedy[1:]}"
        found = dataclasses.replace(found, remedy=first, returns="first")
    return found


def with_remedy_of_a_single_value(event: Event, recent: RecentRows) -> Event:
    """Return an event whose remedy is to wait, if only one value has not been finite so far."""
    is_broken = any(p.is_of_broken_values for p in PATTERNS if p.name == event.pattern)
    if is_broken and not_finite_since(recent, event.started) == 1:
        return replace(event, remedy=IF_SINGLE, action="wait")
    return event
