"""What a key means in one framework, where its name alone does not tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from klarm.metrics.kl_kind import Kind

# Hugging Face trackers, OpenRLHF, SB3 and slime put this before what the trainer logged: the
# number is the same with it and without.
PREFIX = "train/"


@dataclass(frozen=True)
class Row:
    """One key of one framework."""

    metric: str
    kind: Kind | None = None
    # Whether the framework logs minus the metric.
    negated: bool = False
    # What to set when it has been exactly 0 from the start, for it is not measured then.
    when_zero: str = ""


_REFERENCE, _ROLLOUT = Kind("reference"), Kind("rollout")

# By framework, or by one of its trainers after a slash; what a trainer's table lacks is its
# framework's. An unknown estimator is one the user chooses in the framework's configuration.
FRAMEWORKS: dict[str, dict[str, Row]] = {
    "trl": {"kl": Row("kl", Kind("reference", "k3"))},
    "trl/rloo": {"kl": Row("kl", Kind("reference", "k1"))},
    # Of completions that belong to other prompts, and never below 0.
    "trl/kto": {"kl": Row("kl", Kind("reference", per="sequence"))},
    "trl/asyncgrpo": {"kl": Row("kl_old", Kind("old", "k3"))},
    "trl/ppo": {
        "objective/kl": Row("kl", Kind("reference", per="sequence")),
        "policy/approxkl_avg": Row("kl_old", Kind("old", "k2")),
    },
    "unsloth": {
        "kl": Row("kl", Kind("reference", "k3", clamped=True), when_zero="set beta above 0"),
    },
    "ms-swift": {"kl": Row("kl", Kind("reference", "k3", clamped=True))},
    "ms-swift/kl_in_reward": {"kl": Row("kl", Kind("reference", "k1", per="sequence"))},
    "verl": {
        "actor/kl_loss": Row("kl", Kind("reference", clamped=True)),
        "actor/reward_kl_penalty": Row("kl", _REFERENCE),
        "actor/ppo_kl": Row("kl_old", Kind("old", "k1")),
        "rollout_corr/k3_kl": Row("kl_rollout", Kind("rollout", "k3")),
        "rollout_corr/kl": Row("kl_rollout", Kind("rollout", "k1")),
    },
    "openrlhf": {
        "kl": Row(
            "kl",
            Kind("reference", clamped=True),
            when_zero="train with a reference model and init_kl_coef above 0",
        ),
        "ppo_kl": Row("kl_old", Kind("old", "k1")),
        "vllm_kl": Row("kl_rollout", Kind("rollout", "k1")),
        "entropy_loss": Row("entropy"),
    },
    "nemo-rl": {
        "train/kl_penalty": Row(
            "kl",
            Kind("reference", clamped=True),
            when_zero="set loss_fn.reference_policy_kl_penalty above 0",
        ),
        "gen_kl_error": Row("kl_rollout", _ROLLOUT),
    },
    "skyrl": {
        "policy/policy_kl": Row("kl", _REFERENCE),
        "loss/avg_kl": Row("kl", _REFERENCE),
    },
    "slime": {
        "train/kl_loss": Row("kl", _REFERENCE),
        "ppo_kl": Row("kl_old", Kind("old", "k1")),
        "entropy_loss": Row("entropy"),
    },
    "prime-rl": {
        "ref_kl": Row("kl", Kind("reference", "k1"), negated=True),
        "ref_kl/mean": Row("kl", Kind("reference", "k1"), negated=True),
        "mismatch_kl/all/mean": Row("kl_rollout", Kind("rollout", "k3")),
    },
    # `ppo_actor/kl_rewards` is no KL but minus a KL times its weight, and is taken for none.
    "areal": {
        "ppo_actor/update/approx_kl/avg": Row("kl_old", Kind("old", "k1"), negated=True),
    },
    "tinker": {
        "kl_policy_base": Row("kl", Kind("reference", "k1")),
        "optim/kl_sample_train_v2": Row("kl_rollout", Kind("rollout", "k2")),
        "optim/kl_sample_train_v1": Row("kl_rollout", Kind("rollout", "k1")),
    },
    "sb3": {
        "approx_kl": Row("kl_old", Kind("old", "k3", per="action")),
        "entropy_loss": Row("entropy", negated=True),
    },
    "rllib": {
        "learners/*/mean_kl_loss": Row(
            "kl_old",
            Kind("old", "exact", per="action"),
            when_zero="set use_kl_loss=True",
        ),
    },
}

# Names that anybody may give to a number: what they mean in a framework holds in that one only.
_ANYBODYS = {"kl", "approx_kl", "ppo_kl", "train/kl_loss", "entropy_loss"}
_ANYBODYS |= {"ref_kl", "ref_kl/mean"}

# The other keys say by themselves which framework logs them.
TELLING_KEYS: dict[str, Row] = {
    key: row for table in FRAMEWORKS.values() for key, row in table.items() if key not in _ANYBODYS
}

_OTHER_NAMES = {"stable-baselines3": "sb3", "nemo": "nemo-rl", "tinker-cookbook": "tinker"}


def tables(framework: str) -> Iterator[dict[str, Row]]:
    """Yield what is known of a framework's keys: of its trainer's first, if one is named.

    >>> [table["kl"].metric for table in tables("trl/AsyncGRPOTrainer")]
    ['kl_old', 'kl']
    """
    name, _, trainer = framework.lower().partition("/")
    name = name.replace("_", "-")
    name = _OTHER_NAMES.get(name, name)
    for ending in ("trainer", "config"):
        trainer = trainer.removesuffix(ending)
    for known in (f"{name}/{trainer}", name):
        if known in FRAMEWORKS:
            yield FRAMEWORKS[known]


def frameworks_with(key: str, metric: str) -> list[str]:
    """Return the frameworks in which a key that is clear nowhere else is this metric.

    >>> frameworks_with("train/entropy_loss", "entropy")
    ['openrlhf', 'slime', 'sb3']
    """
    names = {key, key.removeprefix(PREFIX)} & _ANYBODYS
    return [
        framework
        for framework, table in FRAMEWORKS.items()
        if any(name in table and table[name].metric == metric for name in names)
    ]
