"""What a detector's class must declare, so that a mistake in a plugin has a clear error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from klarm.settings import missing_attribute

if TYPE_CHECKING:
    from klarm.detectors.base import Detector

# The attributes, with an example of each.
_REQUIRED: Mapping[str, str] = {
    "name": 'name: ClassVar[str] = "reward_floor"',
    "signal": 'signal: ClassVar[str] = "reward"',
    "watches": 'watches: ClassVar[tuple[str, ...]] = ("reward",)',
}


def declaration_problem(kind: type[Detector]) -> str:
    """Return what is wrong with the attributes of a class; empty if nothing is."""
    if missing := missing_attribute(kind, _REQUIRED):
        return missing
    who, watches = kind.__name__, kind.watches
    if not isinstance(watches, tuple):
        return f'{who}.watches must be a tuple, got {watches!r:.80}; write it as in ("kl",)'
    if not watches or not all(isinstance(name, str) and name for name in watches):
        return f'{who}.watches must name a metric, as in ("kl",)'
    return ""
