"""What each framework logs, and what it means by it: one file per framework.

A new framework is one file and one line here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from klarm.metrics.frameworks.advice import Advice
from klarm.metrics.frameworks.advice import WhenNotFinite as WhenNotFinite
from klarm.metrics.frameworks.areal import AREAL
from klarm.metrics.frameworks.ms_swift import MS_SWIFT
from klarm.metrics.frameworks.nemo_rl import NEMO_RL
from klarm.metrics.frameworks.openrlhf import OPENRLHF
from klarm.metrics.frameworks.prime_rl import PRIME_RL
from klarm.metrics.frameworks.rllib import RLLIB
from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.frameworks.sb3 import SB3
from klarm.metrics.frameworks.skyrl import SKYRL
from klarm.metrics.frameworks.slime import SLIME
from klarm.metrics.frameworks.tinker import TINKER
from klarm.metrics.frameworks.trl import TRL
from klarm.metrics.frameworks.unsloth import UNSLOTH
from klarm.metrics.frameworks.verl import VERL

# Hugging Face trackers, OpenRLHF, SB3 and slime add this prefix to the keys of the trainer. The
# value is the same with and without it.
PREFIX = "train/"

# The estimator is unknown where users choose it in the configuration of the framework.
CATALOGUE: tuple[Framework, ...] = (
    TRL,
    UNSLOTH,
    MS_SWIFT,
    VERL,
    OPENRLHF,
    NEMO_RL,
    SKYRL,
    SLIME,
    PRIME_RL,
    AREAL,
    TINKER,
    SB3,
    RLLIB,
)

# By framework, or by framework and trainer with a slash. Keys that are not in the table of a
# trainer are looked up in that of its framework.
FRAMEWORKS: dict[str, Mapping[str, Row]] = {
    name: table
    for framework in CATALOGUE
    for name, table in (
        (framework.name, framework.keys),
        *((f"{framework.name}/{trainer}", keys) for trainer, keys in framework.trainers.items()),
    )
}

_ROWS = [(key, row) for table in FRAMEWORKS.values() for key, row in table.items()]
_GENERIC = {key for key, row in _ROWS if row.generic}
# All other keys are specific to one framework.
SPECIFIC_KEYS: dict[str, Row] = {key: row for key, row in _ROWS if key not in _GENERIC}

# All keys whose metric is clear without the name of a framework, in their order.
_CLEAR_KEYS = [
    *((key, row.metric) for key, row in SPECIFIC_KEYS.items()),
    *(
        (key, metric)
        for framework in CATALOGUE
        for metric, keys in framework.plain_keys.items()
        for key in keys
    ),
]

_OTHER_NAMES = {other: known.name for known in CATALOGUE for other in known.other_names}

__all__ = [
    "CATALOGUE",
    "FRAMEWORKS",
    "PREFIX",
    "SPECIFIC_KEYS",
    "Advice",
    "Framework",
    "Row",
    "advice_of",
    "frameworks_with",
    "keys_of",
    "tables",
    "trains_language_models",
    "why_missing_in",
]


def tables(framework: str) -> Iterator[Mapping[str, Row]]:
    """Yield the tables of keys of a framework, first that of its trainer if one is named.

    >>> [table["kl"].metric for table in tables("trl/AsyncGRPOTrainer")]
    ['kl_old', 'kl']
    """
    name, _, trainer = framework.lower().partition("/")
    name = _known_name(name)
    for ending in ("trainer", "config"):
        trainer = trainer.removesuffix(ending)
    for known in (f"{name}/{trainer}", name):
        if known in FRAMEWORKS:
            yield FRAMEWORKS[known]


def advice_of(framework: str) -> Advice:
    """Return the advice of a framework; empty if the framework is unknown or has none.

    >>> advice_of("SB3/PPO").patterns["narrowing"].remedy.partition(".")[0]
    'Watch some episodes'
    """
    known = _named(framework)
    return Advice() if known is None else known.advice


def keys_of(metric: str) -> tuple[str, ...]:
    """Return the keys that mean a metric even if the framework is not named.

    >>> keys_of("kl_rollout")[0]
    'rollout_corr/k3_kl'
    """
    return tuple(key for key, meant in _CLEAR_KEYS if meant == metric)


def why_missing_in(framework: str, metric: str) -> str:
    """Return why the logs of a framework may lack a metric; empty if klarm knows no reason.

    >>> why_missing_in("verl", "kl")
    'it is logged only with a KL penalty'
    """
    known = _named(framework)
    return "" if known is None else known.when_missing.get(metric, "")


def trains_language_models(framework: str) -> bool:
    """Return whether a framework is known to train language models, and nothing else.

    >>> trains_language_models("trl/GRPO"), trains_language_models("sb3/SAC")
    (True, False)
    """
    return any(tables(framework)) and not advice_of(framework).patterns


def frameworks_with(key: str, metric: str) -> list[str]:
    """Return the frameworks in which a generic key means this metric.

    >>> "sb3" in frameworks_with("train/entropy_loss", "entropy")
    True
    """
    names = {key, key.removeprefix(PREFIX)} & _GENERIC
    return [
        framework
        for framework, table in FRAMEWORKS.items()
        if any(name in table and table[name].metric == metric for name in names)
    ]


def _named(framework: str) -> Framework | None:
    name = _known_name(framework.partition("/")[0])
    return next((known for known in CATALOGUE if known.name == name), None)


def _known_name(name: str) -> str:
    name = name.lower().replace("_", "-")
    return _OTHER_NAMES.get(name, name)
