"""The playbook: patterns of what moves together, their likely cause and what to do.

One table. `docs/playbook.md` says the same for people; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from klarm.movements import Direction, Movement, summary
from klarm.types import Event


@dataclass(frozen=True)
class Pattern:
    """What moved how, and what it means. A metric that is not logged fits no condition."""

    name: str
    moved: dict[str, tuple[Direction, ...]]
    cause: str
    remedy: str
    # These moved first, in this order.
    order: tuple[str, ...] = ()

    def fits(self, movements: Iterable[Movement]) -> bool:
        """Tell whether this is what happened."""
        found = {movement.metric: movement for movement in movements}
        for metric, directions in self.moved.items():
            if metric not in found or found[metric].direction not in directions:
                return False
        steps = [found[metric].step for metric in self.order if metric in found]
        return steps == sorted(steps)


_CLAMP = (
    "Stop; go back to the last good checkpoint; clamp log-ratios before they are exponentiated."
)
_STILL_OR_DOWN: tuple[Direction, ...] = ("flat", "down")

# The first that fits is told, so the more particular stand first.
PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "learning rate raised",
        {"learning_rate": ("up",), "kl": ("up", "broken")},
        "the learning rate went up and KL followed",
        "Go back to a checkpoint from before the change, and lower the learning rate.",
        order=("learning_rate", "kl"),
    ),
    Pattern(
        "numbers broken",
        {"loss": ("broken",)},
        "an overflow: the loss is not finite",
        _CLAMP,
    ),
    Pattern(
        "KL broken",
        {"kl": ("broken",)},
        "an overflow in the estimate of KL",
        _CLAMP,
    ),
    Pattern(
        "collapsed",
        {"reward_std": ("down",), "grad_norm": ("down",)},
        "all samples get the same reward, so there is no gradient left",
        "Nothing brings it back in place. Go back to a checkpoint from before the collapse.",
    ),
    Pattern(
        "reward hacking",
        {"kl": ("up",), "reward": ("up",), "entropy": ("down",)},
        "the policy has found what the reward likes and writes little else",
        "Stop; go back; read some samples; mend the reward or raise the KL penalty.",
    ),
    Pattern(
        "length hack",
        {"length": ("up",), "reward": ("up",)},
        "the reward pays for length",
        "Make the reward neutral to length, or penalise truncated samples.",
    ),
    Pattern(
        "loss bursts first",
        {"loss": ("up",), "kl": ("up",)},
        "ratios or log-probabilities that are not clamped",
        "Clamp them, and check the log-probabilities for outliers.",
        order=("loss", "kl"),
    ),
    Pattern(
        "trainer and sampler disagree",
        {"entropy": ("up",), "kl": ("up",), "reward": ("down",)},
        "the sampler's policy is not the trainer's",
        "Compare their log-probabilities, and check that weights are synchronised.",
    ),
    Pattern(
        "gradients first",
        {"grad_norm": ("up",), "kl": ("up",)},
        "updates that are too large",
        "Lower the learning rate or the gradient clip; look at the batch where it began.",
        order=("grad_norm", "kl"),
    ),
    Pattern(
        "past the optimum",
        {"kl": ("up",), "reward": _STILL_OR_DOWN},
        "KL is spent and the reward does not pay for it",
        "Stop at the checkpoint with the best reward, or lower the learning rate.",
    ),
    Pattern(
        "take-off",
        {"kl": ("up",), "reward": ("up",)},
        "the policy learns something new, or begins to game the reward",
        "Read some samples. If they are good and KL levels off, accept the new level.",
    ),
)


def diagnose(movements: Iterable[Movement]) -> Pattern | None:
    """Return the first pattern that fits what moved, if one does."""
    movements = list(movements)
    return next((pattern for pattern in PATTERNS if pattern.fits(movements)), None)


def diagnosed(event: Event, movements: Iterable[Movement]) -> Event:
    """Return an event that also says what else moved, and what that looks like."""
    movements = list(movements)
    pattern = diagnose(movements)
    return msgspec.structs.replace(
        event,
        moved=summary(movements),
        pattern=pattern.name if pattern else "",
        cause=pattern.cause if pattern else "",
        remedy=pattern.remedy if pattern else "",
    )
