"""The description of a framework: the keys that it logs, and their meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from klarm.metrics.frameworks.advice import Advice
from klarm.metrics.kl_kind import Kind


@dataclass(frozen=True)
class Row:
    """One key of one framework."""

    metric: str
    kind: Kind | None = None
    # Whether the framework logs minus the metric.
    negated: bool = False
    # What to set if it has been exactly 0 from the start, which means that it is not measured.
    when_zero: str = ""
    # Whether other frameworks may use this key with another meaning.
    generic: bool = False


@dataclass(frozen=True)
class Framework:
    """One framework: all that klarm knows of what it logs."""

    name: str
    # The keys that need more than the name of their metric, such as every KL.
    keys: Mapping[str, Row] = field(default_factory=dict)
    # The keys that have another meaning in one of its trainers, by the name of the trainer in lower
    # case, without `Trainer` or `Config` at its end.
    trainers: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)
    # All other keys, by metric. They mean this metric even if the framework is not named. If a step
    # has several, the first one is used.
    plain_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Why a metric may be missing from its logs, by metric.
    when_missing: Mapping[str, str] = field(default_factory=dict)
    other_names: tuple[str, ...] = ()
    # What to do about an incident, where klarm's general advice does not fit.
    advice: Advice = field(default_factory=Advice)
