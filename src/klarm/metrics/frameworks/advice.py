"""What to do about an incident in a framework's own words, where klarm's general ones do not fit.

General advice is for language models: it speaks of prompts, samples and a KL penalty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class WhenNotFinite(NamedTuple):
    """What to do about a value that is NaN or infinite."""

    check: str  # what to look at in the next rows first; empty: nothing
    then: str  # what to do if that is not finite either


class Explanation(NamedTuple):
    """What a pattern of the playbook means and what to do. An empty cause stands for klarm's."""

    remedy: str  # {before} stands for "from before step 152"
    cause: str = ""
    goes_back: bool = False  # whether the remedy begins with going back to a checkpoint


@dataclass(frozen=True)
class Advice:
    """The advice of one framework. What is not named here is klarm's general advice."""

    # By the name of the detector, then by severity.
    detectors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # By the name of the pattern.
    patterns: Mapping[str, Explanation] = field(default_factory=dict)
    # By the metric that is NaN or infinite.
    not_finite: Mapping[str, WhenNotFinite] = field(default_factory=dict)


def advice_on_episodes(
    *,
    learning_rate: str,
    epochs: str,
    update_limit: str,
    clip_range: str,
    entropy_bonus: str,
    gradient_clip: str,
    scale: str,
    find: str = "",
) -> Advice:
    """Return advice for a policy that acts in an environment, given the names of its settings.

    `update_limit` says how to limit an update besides fewer epochs, and `scale` what to do about
    large rewards, each as an imperative. `find` names a tool that finds non-finite values.
    """
    smaller = f"Lower {learning_rate} or {epochs}, or {update_limit}"
    found = f" ({find})" if find else ""
    return Advice(
        detectors={
            "trust_region": {
                "warning": f"{smaller}, if more such updates follow.",
                "critical": f"{smaller}. If the reward has fallen, go back to a checkpoint from "
                "before.",
            },
            "clip_saturation": {
                "warning": f"{smaller}: much of each batch gives no gradient.",
                "critical": f"Lower {learning_rate} now: most of the gradient is clipped away. If "
                f"{clip_range} is far below 0.2, raise it.",
            },
            "entropy_collapse": {
                "warning": "Watch some episodes: does the policy always do the same? If the reward "
                f"is not rising either, raise {entropy_bonus} or lower {learning_rate}.",
                "critical": "Stop, and go back to a checkpoint from before the fall with a higher "
                f"{entropy_bonus} or a lower {learning_rate}: the policy does the same every time "
                "and no longer explores.",
            },
            "gradient_norm_spike": {
                "warning": f"Check that gradients are clipped ({gradient_clip}). If more spikes "
                f"follow, lower {learning_rate} or {gradient_clip}.",
                "critical": f"Lower {learning_rate} or {gradient_clip}. If the loss has risen with "
                "them, go back to a checkpoint from before the spikes.",
            },
            "loss_explosion": {
                "warning": "Look at which loss it is. The targets of a critic feed on themselves "
                f"when {learning_rate} is too high or rewards are large: lower {learning_rate}, "
                f"and {scale}.",
                "critical": "Stop, and go back to a checkpoint from before the rise with a lower "
                f"{learning_rate}; {scale}.",
            },
            "reward_drift": {
                "warning": "Watch some episodes from before and from now. If they are worse, go "
                f"back to a checkpoint from before the drift and lower {learning_rate}; if the "
                "policy gets its reward without doing the task, fix the reward first.",
            },
            "reward_collapse": {
                "warning": f"Look at what changed where the fall began: {learning_rate}, the "
                "environment, a worker that fails. If nothing was meant to change, go back to the "
                "checkpoint before it.",
                "critical": "Stop, go back to the last checkpoint before the fall, and lower "
                f"{learning_rate}: a policy whose reward has fallen this low rarely recovers in "
                "place.",
            },
            "reward_hacking": {
                "warning": "Watch the episodes with the highest returns: has the policy found "
                "something that the reward pays for, but that you do not want?",
                "critical": "Stop and watch some episodes: if the reward is being gamed, go back "
                "to a checkpoint from before the change, and fix the reward.",
            },
        },
        patterns={
            "reward broken": Explanation(
                "Go back to a checkpoint from before it: updates with such a reward are unsafe. "
                "Then look in the environment for a division by 0, a logarithm of 0 or a "
                f"simulation that diverged{found}.",
                "the environment returned a reward that is not finite",
                goes_back=True,
            ),
            "learning rate raised": Explanation(
                f"Go back to a checkpoint {{before}}, and lower {learning_rate}.", goes_back=True
            ),
            "numbers broken": Explanation(
                f"Stop, go back to the last good checkpoint, and lower {learning_rate}. Then look "
                f"for observations, rewards or advantages that overflow{found}."
            ),
            "gradients broken": Explanation(
                f"Go back to the last good checkpoint, and lower {learning_rate} or "
                f"{gradient_clip}. Then look for observations or rewards that are far too large.",
                goes_back=True,
            ),
            "learning rate too high from the start": Explanation(
                f"Start again with {learning_rate} ten times lower. If only the KL of updates "
                f"rose, it may be enough to {update_limit}."
            ),
            "collapsed": Explanation(
                "Go back to a checkpoint from before the collapse, and raise "
                f"{entropy_bonus} or lower {learning_rate}.",
                "episodes get nearly the same reward, so there is hardly any gradient left",
                goes_back=True,
            ),
            "gradients and loss": Explanation(
                "Go back to a checkpoint {before}. Then compare rewards, advantages and loss with "
                f"those before, and lower {learning_rate} or {gradient_clip}.",
                goes_back=True,
            ),
            "narrowing": Explanation(
                "Watch some episodes. If the policy always does the same, raise "
                f"{entropy_bonus} or lower {learning_rate}."
            ),
        },
        not_finite={
            "loss": WhenNotFinite(
                "this metric or the gradient norm",
                f"stop the run, go back to the last good checkpoint, lower {learning_rate}, and "
                "look for observations, rewards or actions that are not finite or far too "
                f"large{found}.",
            ),
            "reward": WhenNotFinite(
                "the reward or the loss",
                "stop the run, go back to the last good checkpoint, and look at the reward of the "
                "environment: a division by 0, a logarithm of 0, a simulation that "
                f"diverged{found}.",
            ),
        },
    )
