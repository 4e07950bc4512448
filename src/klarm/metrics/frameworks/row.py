"""What a framework is to klarm: the keys it logs, and what each means."""

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
    # What to set when it has been exactly 0 from the start, for it is not measured then.
    when_zero: str = ""
    # Whether anybody may give that name to a number: then it means this in this framework only.
    generic: bool = False


@dataclass(frozen=True)
class Framework:
    """One framework. Its keys are listed where the name alone does not tell what they mean."""

    name: str
    keys: Mapping[str, Row] = field(default_factory=dict)
    # Where one of its trainers means something else by a key. By the trainer's name in lower case,
    # without `Trainer` or `Config` at its end.
    trainers: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)
    other_names: tuple[str, ...] = ()
    # What to do about an incident, where klarm's general advice does not fit.
    advice: Advice = field(default_factory=Advice)
