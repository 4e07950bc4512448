"""What detectors say: their sentences by name, for whoever shows an alert.

An alert holds facts only. The sentences for them are declared by the class of its detector, and a
detector of somebody else may be unknown where its alerts are read, so that journals keep its
sentences, too.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from klarm.types import Severity


class Speech(msgspec.Struct, frozen=True):
    """The sentences of one detector. The facts of an alert stand in braces."""

    messages: Mapping[str, str]  # what has happened, by case or severity
    recommendations: Mapping[Severity, str]  # what to do, by severity


_known: dict[str, Speech] = {}


def learn(
    detector: str, messages: Mapping[str, str], recommendations: Mapping[Severity, str]
) -> None:
    """Note what a detector says; the last one of a name counts."""
    _known[detector] = Speech(messages, recommendations)


def learn_all(sentences: Mapping[str, Speech]) -> None:
    """Note what a journal says of detectors that may be unknown here."""
    _known.update(sentences)


def speech_of(detector: str) -> Speech | None:
    """Return what a detector says; None if it is unknown here."""
    return _known.get(detector)
