"""The playbook: patterns of metrics that move together, their likely cause and what to do.

A test verifies that the table in `docs/playbook.md` says the same.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Literal, NamedTuple

from msgspec.structs import replace

from klarm.incidents.movement import Direction, Movement
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.trends import not_finite_since
from klarm.metrics import PROBE
from klarm.types import Event

# KL is far from the reference above this share of its budget.
FAR = 0.5
# A metric stays where it went if it is still at least this share of the way from where it was.
_MIN_STAYED = 0.5
# A reward has risen with another metric if at least this share of its rise came after that metric
# moved. SB3 logs a mean over the last hundred episodes, which still rises after a policy broke.
_MIN_SHARED_RISE = 0.25
_REWARD = "reward"
_KL, _PROBED = "kl", PROBE[0]
_LOSS, _PARTS = "loss", ("actor_loss", "critic_loss")
# The remedy while a single value is not finite: one bad batch or estimate may have caused it, and a
# trainer that skips it is fine.
IF_SINGLE = (
    "Check the next rows. If this metric, the loss or the gradient norm is not finite there, stop, "
    "and go back to the last good checkpoint."
)

# What comes before a remedy that does not go back, if an incident is critical and KL has exploded:
# hardly any run returns from there by itself.
GO_BACK_FIRST = "Go back to a checkpoint from before the incident. Before you continue, "
_GOES_BACK = re.compile(r"\b[Gg]o(ing)? back\b|\bStart again\b")

# A jump of the learning rate may look like these patterns, if nobody sees it.
LIKE_A_JUMP = ("reward hacking", "reward bought with KL")
JUMP_NOT_RULED_OUT = "learning_rate is not logged, so a jump of it cannot be ruled out."


@dataclass(frozen=True, slots=True)
class Explained:
    """The pattern that an incident was last explained by."""

    pattern: str
    # The levels of its metrics then: before they moved, and where they were.
    levels: dict[str, tuple[float, float]]


class Circumstances(NamedTuple):
    """What a pattern may depend on besides the metrics that moved."""

    started: float = inf  # the step of the incident's first alert
    far: bool = False  # KL is above half its budget
    over: bool = False  # KL has exceeded its budget
    critical: bool = False
    early: bool = False  # the policy broke down when the run had just begun
    before: Explained | None = None  # how the incident was explained before


@dataclass(frozen=True)
class Pattern:
    """Movements of metrics, and what they mean. A metric that is not logged fits no condition."""

    name: str
    # The signals whose incidents it explains.
    explains: tuple[str, ...]
    moved: dict[str, tuple[Direction, ...]]
    cause: str
    remedy: str
    # These metrics moved in this order. All but the last may have turned back since.
    order: tuple[str, ...] = ()
    # The minimum factor over its normal level, by metric.
    min_factor: dict[str, float] = field(default_factory=dict)
    # far: only if KL is far. harmless: only if it is not, and the incident is a warning.
    # early: only if the incident is critical and the run has just begun.
    only: Literal["", "far", "harmless", "early"] = ""
    # This metric must have moved no later than the incident began.
    cause_metric: str = ""
    # If this metric moved at once, others that only went on as before did not cause it.
    not_at_once: str = ""
    # The cause to give once KL has exceeded its budget, if it is another one.
    cause_if_over: str = ""

    @property
    def is_of_broken_values(self) -> bool:
        """Whether all that it goes by is that metrics are not finite."""
        return bool(self.moved) and all(went == _BROKEN for went in self.moved.values())

    def fits(self, movements: Iterable[Movement], at: Circumstances) -> bool:
        """Return whether the pattern fits these movements."""
        if not self._is_possible(at):
            return False
        found = {movement.metric: movement for movement in movements}
        for metric, directions in self.moved.items():
            movement = found.get(metric)
            if movement is None:
                return False
            where = movement.direction if metric in self.order[:-1] else movement.lately
            if metric == _REWARD and where == "up" and not self._rose_with_others(found):
                where = "flat"
            if where not in directions or movement.factor < self.min_factor.get(metric, -inf):
                return False
        if self.cause_metric:
            raised = found[self.cause_metric].step
            others = [m for m in found.values() if m.metric != self.cause_metric]
            followed = any(m.direction != "flat" and m.step >= raised for m in others)
            if not followed or raised > at.started:
                return False
        if self.not_at_once and found[self.not_at_once].was_sudden:
            others = [found[metric] for metric in self.moved if metric != self.not_at_once]
            if all(other.steady for other in others):
                return False
        return self._is_in_order(found)

    def still_fits(self, movements: Iterable[Movement], at: Circumstances) -> bool:
        """Return whether it explained the incident before, and its metrics stay where they went.

        A metric that stays there looks flat in the rows that are looked at.
        """
        if at.before is None or at.before.pattern != self.name or not self._is_possible(at):
            return False
        found = {movement.metric: movement for movement in movements}
        for metric, directions in self.moved.items():
            movement = found.get(metric)
            if movement is None:
                return False
            if movement.lately in directions:
                continue
            if movement.lately != "flat" or metric not in at.before.levels:
                return False
            usual, reached = at.before.levels[metric]
            if (movement.level - usual) / (reached - usual or inf) < _MIN_STAYED:
                return False
        return self._is_in_order(found)

    def levels_in(self, movements: Iterable[Movement]) -> dict[str, tuple[float, float]]:
        """Return the levels of its metrics that moved: before, and now."""
        found = {m.metric: m for m in _as_patterns_see(movements) if m.metric in self.moved}
        return {m.metric: m.levels for m in found.values() if m.direction in ("up", "down")}

    def steps_in(self, movements: Iterable[Movement]) -> list[int]:
        """Return the steps at which the metrics moved that the pattern names."""
        stand_ins = {_PROBED: _KL, **dict.fromkeys(_PARTS, _LOSS)}
        moved = [movement for movement in movements if movement.direction != "flat"]
        return [
            m.step for m in moved if m.metric in self.moved or stand_ins.get(m.metric) in self.moved
        ]

    def _is_in_order(self, found: Mapping[str, Movement]) -> bool:
        known = [found[metric] for metric in self.order if metric in found]
        steps = [movement.step for movement in known if movement.direction != "flat"]
        # Metrics that moved at the same step have no order.
        return all(earlier < later for earlier, later in pairwise(steps))

    def _is_possible(self, at: Circumstances) -> bool:
        if (self.only == "far" and not at.far) or (self.only == "early" and not at.early):
            return False
        return self.only != "harmless" or not (at.far or at.critical)

    def _rose_with_others(self, found: Mapping[str, Movement]) -> bool:
        """Return whether enough of the rise of the reward came after the other metrics moved."""
        others = [found[metric] for metric in self.moved if metric != _REWARD and metric in found]
        moved = [other.evident or other.step for other in others if other.direction != "flat"]
        return all(found[_REWARD].share_since(step) >= _MIN_SHARED_RISE for step in moved)


_UP: tuple[Direction, ...] = ("up",)
_DOWN: tuple[Direction, ...] = ("down",)
_BROKEN: tuple[Direction, ...] = ("broken",)
_STILL_OR_DOWN: tuple[Direction, ...] = ("flat", "down")

# The first pattern that fits is reported, so specific ones come before general ones.
PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "reward broken",
        ("reward",),
        {"reward": _BROKEN},
        "the reward function returned something that is not finite",
        "Go back to a checkpoint from before it: updates with such a reward are unsafe. Then look "
        "for a division by 0, a logarithm of 0 or an answer that could not be parsed.",
    ),
    Pattern(
        "learning rate raised",
        ("kl", "gradient", "entropy", "reward", "loss", "advantage", "length"),
        {"learning_rate": _UP},
        "the learning rate was raised",
        "Go back to a checkpoint from before the change, and lower the learning rate.",
        cause_metric="learning_rate",
    ),
    Pattern(
        "numbers broken",
        ("loss", "gradient", "kl"),
        {"loss": _BROKEN},
        "an overflow: the loss is not finite",
        "Stop, and go back to the last good checkpoint. Then clamp log-ratios before they are "
        "exponentiated, and look for logits or advantages that overflow.",
    ),
    Pattern(
        "KL broken",
        ("kl",),
        {"kl": _BROKEN},
        "an overflow in the estimate of KL",
        "Stop, and go back to the last good checkpoint. Then clamp log-ratios before they are "
        "exponentiated.",
    ),
    Pattern(
        "gradients broken",
        ("gradient",),
        {"grad_norm": _BROKEN},
        "an overflow in the backward pass",
        "Check whether the loss scaler of float16 skips these steps and recovers. If not, go back "
        "to a checkpoint from before them, and use bfloat16.",
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
    ),
    Pattern(
        "trainer and sampler disagree",
        ("kl", "reward", "entropy"),
        {"kl_rollout": _UP},
        "the sampler's policy is not the trainer's",
        "Check that the sampler gets the weights of the trainer. Then compare the "
        "log-probabilities of both.",
    ),
    Pattern(
        "collapsed",
        ("reward", "entropy", "advantage"),
        {"reward_std": _DOWN, "grad_norm": _DOWN},
        "all samples get the same reward, so there is no gradient left",
        "Go back to a checkpoint from before the collapse: without a gradient, no setting helps.",
    ),
    Pattern(
        "length hack",
        ("length", "reward", "entropy", "kl"),
        {"length": _UP, "reward": _UP},
        "the reward pays for length",
        "Make the reward neutral to length, or penalise truncated samples.",
        min_factor={"length": 2.0},
    ),
    Pattern(
        "reward hacking",
        ("kl", "reward", "entropy"),
        {"reward": _UP, "entropy": _DOWN},
        "the policy has found what the reward pays for and writes little else",
        "Stop, and read some samples. Then go back to a checkpoint from before the incident, and "
        "fix the reward or raise the KL penalty.",
        only="far",
    ),
    Pattern(
        "longer for nothing",
        ("length",),
        {"length": _UP, "reward": _STILL_OR_DOWN},
        "completions grow without a matching rise in reward: padding, repetition or a missing end "
        "token",
        "Read some of the longest samples. If they repeat themselves or do not end, penalise "
        "truncated ones.",
    ),
    Pattern(
        "loss bursts first",
        ("kl", "gradient"),
        {"loss": _UP, "kl": _UP},
        "ratios or log-probabilities that are not clamped",
        "Clamp ratios and log-probabilities, and check them for outliers.",
        order=("loss", "kl"),
    ),
    Pattern(
        "falling apart",
        ("kl", "reward", "entropy"),
        {"entropy": _UP, "kl": _UP, "reward": _DOWN},
        "the policy becomes noise: updates are too large, or samples come from another policy",
        "Go back to a checkpoint from before the incident, and lower the learning rate. If it "
        "happens again, check that the sampler has the trainer's weights.",
    ),
    Pattern(
        "gradients first",
        ("kl", "gradient", "reward"),
        {"grad_norm": _UP, "kl": _UP},
        "updates that are too large",
        "Lower the learning rate, or clip gradients at a smaller norm.",
        order=("grad_norm", "kl"),
    ),
    Pattern(
        "past the optimum",
        ("kl", "reward"),
        {"kl": _UP, "reward": _DOWN},
        "the policy was pushed past the optimum by a learning rate that is too high or a KL "
        "penalty that is too low",
        "Go back to a checkpoint from before the incident, and continue with a lower learning "
        "rate.",
        not_at_once="reward",
    ),
    Pattern(
        "KL far ahead of the reward",
        ("kl",),
        {"kl": _UP, "reward": ("flat",)},
        "KL has used over half its budget without a matching rise in reward",
        "Go back to a checkpoint from before the incident, and lower the learning rate or raise "
        "the KL penalty.",
        only="far",
        cause_if_over="KL has exceeded its budget without a matching rise in reward",
    ),
    Pattern(
        "KL ahead of the reward",
        ("kl",),
        {"kl": _UP, "reward": ("flat",)},
        "the policy moves away from the reference faster than the reward justifies so far: the "
        "learning rate may be too high or the KL penalty too low",
        "Watch the reward. If it does not rise soon, lower the learning rate or raise the KL "
        "penalty.",
        only="harmless",
    ),
    Pattern(
        "KL runs away from the reward",
        ("kl",),
        {"kl": _UP, "reward": ("flat",)},
        "the policy moves away from the reference faster than the reward justifies: the learning "
        "rate is too high or the KL penalty too low",
        "Lower the learning rate or raise the KL penalty. If KL does not level off then, go back "
        "to a checkpoint from before the incident.",
    ),
    Pattern(
        "take-off",
        ("kl",),
        {"kl": _UP, "reward": _UP},
        "the policy learns something new, or begins to game the reward",
        "Read some samples. If they are good and KL levels off, accept the new level.",
        only="harmless",
    ),
    Pattern(
        "reward bought with KL",
        ("kl", "gradient"),
        {"kl": _UP, "reward": _UP},
        "the policy games the reward, or the learning rate is too high: KL rises faster than the "
        "reward",
        "Read the samples with the highest rewards. If they are bad, go back and fix the reward, "
        "otherwise lower the learning rate or raise the KL penalty.",
    ),
    Pattern(
        "narrowing",
        ("entropy",),
        {"entropy": _DOWN, "reward": _STILL_OR_DOWN},
        "too little exploration or a learning rate that is too high: the policy is losing its "
        "diversity without a matching rise in reward",
        "Compare samples of one prompt. If they have become alike, lower the learning rate, add "
        "an entropy bonus or raise the sampling temperature.",
    ),
)


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
    budgets = {_KL: budget, _PROBED: probe_budget}
    far = any(abs(m.level) > FAR * budgets.get(m.metric, inf) for m in movements)
    at, movements = at._replace(far=far), _as_patterns_see(movements)
    explaining = (pattern for pattern in PATTERNS if signal in pattern.explains)
    fitting = (p for p in explaining if p.fits(movements, at) or p.still_fits(movements, at))
    found = next(fitting, None)
    if found is None:
        return None
    if at.over and found.cause_if_over:
        found = dataclasses.replace(found, cause=found.cause_if_over)
    risen = any(m.metric == _KL and m.lately == "up" for m in movements)
    if at.critical and (far or (signal == _KL and risen)) and not goes_back(found.remedy):
        first = f"{GO_BACK_FIRST}{found.remedy[:1].lower()}{found.remedy[1:]}"
        found = dataclasses.replace(found, remedy=first)
    return found


def goes_back(remedy: str) -> bool:
    """Return whether a remedy includes going back to a checkpoint, or to the start."""
    return _GOES_BACK.search(remedy) is not None


def with_remedy_of_a_single_value(event: Event, recent: RecentRows) -> Event:
    """Return an event whose remedy is to wait, if only one value has not been finite so far."""
    is_broken = any(p.is_of_broken_values for p in PATTERNS if p.name == event.pattern)
    if is_broken and not_finite_since(recent, event.started) == 1:
        return replace(event, remedy=IF_SINGLE)
    return event


def _as_patterns_see(movements: Iterable[Movement]) -> list[Movement]:
    return _with_whole_loss(_with_one_kl(movements))


def _with_one_kl(movements: Iterable[Movement]) -> list[Movement]:
    """Use the KL of the probe where the trainer logs none, or where the trainer's is flat."""
    found = {movement.metric: movement for movement in movements}
    trainers, probes = found.get(_KL), found.get(_PROBED)
    if probes is not None and (trainers is None or trainers.direction == "flat"):
        found[_KL] = probes._replace(metric=_KL)
    return list(found.values())


def _with_whole_loss(movements: Iterable[Movement]) -> list[Movement]:
    """Let a part of the loss that is not finite stand for the whole, where that is not logged."""
    found = {movement.metric: movement for movement in movements}
    parts = [found[part] for part in _PARTS if part in found]
    broken = next((part for part in parts if part.direction == "broken"), None)
    if broken is not None and _LOSS not in found:
        found[_LOSS] = broken._replace(metric=_LOSS)
    return list(found.values())
