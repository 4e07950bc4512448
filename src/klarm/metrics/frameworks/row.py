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
    """One framework, with the keys whose meaning is not clear from their name."""

    name: str
    keys: Mapping[str, Row] = field(default_factory=dict)
    # The keys that have another meaning in one of its trainers, by the name of the trainer in lower
    # case, without `Trainer` or `Config` at its end.
    trainers: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)
    other_names: tuple[str, ...] = ()
    # What to do about an incident, where klarm's general advice does not fit.
    advice: Advice = field(default_factory=Advice)
