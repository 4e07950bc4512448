"""Detectors of other packages: what they must provide, and which are installed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from klarm.detectors.base import Detector
from klarm.detectors.declaration import declaration_problem
from klarm.metrics import METRICS, meaning
from klarm.plugins import DETECTORS, PluginError, not_a_kind_of, plugins
from klarm.types import SEVERITIES

# A section of klarm.yaml. Two underscores separate section and setting in environment variables.
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class Installed(NamedTuple):
    """The detectors of other packages."""

    kinds: dict[str, type[Detector]]
    broken: dict[str, str]  # the name of each broken one, and why it cannot be used


@cache
def installed_detectors() -> Installed:
    """Import the detectors of other packages, once per process."""
    kinds, broken = {}, {}
    for name, plugin in plugins(DETECTORS).items():

        def problem(kind: type[Detector], name: str = name) -> str:
            if kind.__dict__.get("name") != name:
                return f"the entry point is called {name}, its detector {_shown(kind, 'name')}"
            kind()  # raises an error if the default of a setting is not allowed
            return detector_problem(kind)

        try:
            kinds[name] = plugin.load(Detector, problem)  # type: ignore[type-abstract]
        except PluginError as error:
            broken[name] = str(error)
    return Installed(kinds, broken)


def detector_problem(kind: type[Detector]) -> str:
    """Return why a class cannot be a detector; empty if it can."""
    wrong = not_a_kind_of(Detector, kind) or declaration_problem(kind)
    if wrong:
        return wrong
    who = kind.__name__
    for attribute in ("name", "signal"):
        if not isinstance(getattr(kind, attribute), str):
            return f"{who}.{attribute} must be text, got {_shown(kind, attribute)}"
    if not _NAME.fullmatch(kind.name) or not _NAME.fullmatch(kind.signal):
        return f"{who}.name and signal must be in lower case with single underscores: reward_floor"
    for name in kind.watches:
        known = None if name in METRICS else meaning(name)
        if known is not None:
            return f"{who}.watches has {name}, which klarm reads as {known.metric}: watch that"
    said, advice = kind.messages, kind.recommendations
    if not (said or advice) and kind.__module__.startswith("klarm."):
        return ""  # klarm says alike of every metric that it is NaN
    if not isinstance(advice, Mapping) or not advice or not set(advice) <= set(SEVERITIES):
        return f'{who}.recommendations must have a text for "warning", "critical" or both'
    if not isinstance(said, Mapping) or not said:
        return f'{who}.messages must have a sentence for "warning", "critical" or both'
    return ""


def _shown(kind: type, attribute: str) -> str:
    return f"{getattr(kind, attribute, None)!r:.80}"
