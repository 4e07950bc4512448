"""Extras: the detectors and channels of a configuration that are not part of klarm.

A script passes them as objects, other packages provide classes. Either way, the configuration has
one object of each, and every monitor gets a copy with the settings in force.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from klarm.channels import Channel, channel_problem
from klarm.detectors import CATALOGUE, Detector, detector_problem, installed_detectors
from klarm.settings import (
    ConfigError,
    Setting,
    explicit_settings,
    keep_explicit,
    settings_of,
)

_Made = TypeVar("_Made", Detector, Channel)
_OURS = {kind.name: kind for kind in CATALOGUE}


class Given(NamedTuple):
    """The detectors that a script has passed."""

    detectors: dict[str, Detector]  # besides klarm's own, by name
    settings: dict[str, dict[str, object]]  # by section: what was given explicitly


def given_detectors(given: object, source: str, taken: Iterable[str]) -> Given:
    """Check the detectors that a script passes; `taken` are names with another meaning."""
    if given is None:
        return Given({}, {})
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise ConfigError(
            f"{source}: detectors must be a list of detectors, as in detectors=[MyDetector()]; "
            "to change the settings of a detector, pass them under its name: kl_explosion={...}"
        )
    found = Given({}, {})
    for one in given:
        detector = _object_of(Detector, one, source)  # type: ignore[type-abstract]
        name, kind = detector.name, type(detector)
        if name in found.settings:
            raise ConfigError(f"{source}: detectors has {name} twice")
        if name in taken or (name in _OURS and kind is not _OURS[name]):
            raise ConfigError(
                f"{source}: {kind.__name__} cannot be called {name}, which is a name of klarm's own"
            )
        if name not in _OURS:
            found.detectors[name] = detector
        found.settings[name] = explicit_settings(detector)
    return found


def installed(taken: Iterable[str]) -> tuple[dict[str, Detector], dict[str, str]]:
    """Return an object of every installed detector, and why others cannot be used."""
    kinds, broken = installed_detectors()
    names = {*taken, *_OURS}
    clashing = {
        name: f"{kind.__module__} cannot be used: klarm has another thing of that name"
        for name, kind in kinds.items()
        if name in names
    }
    found = {name: kind() for name, kind in kinds.items() if name not in clashing}
    return found, {**broken, **clashing}


def given_channel(one: object, source: str) -> Channel:
    """Check a channel that a script passes."""
    return _object_of(Channel, one, source)  # type: ignore[type-abstract]


def defaults(detectors: Mapping[str, Detector]) -> dict[str, dict[str, Setting]]:
    """Return the sections of detectors, by name."""
    return {name: settings_of(type(detector)) for name, detector in detectors.items()}


def remade(made: _Made, settings: Mapping[str, object]) -> _Made:
    """Return a new object of the same class, with other settings and without state."""
    try:
        twin = dataclasses.replace(made, **settings)  # type: ignore[arg-type]
    except TypeError:  # it has its own __init__
        twin = copy.copy(made)
        for name, value in settings.items():
            setattr(twin, name, value)
        twin.__post_init__()
    keep_explicit(twin, made)
    return twin


def _object_of(base: type[_Made], one: object, source: str) -> _Made:
    kind = one if isinstance(one, type) else type(one)
    problem = detector_problem if base is Detector else channel_problem
    wrong = problem(kind)
    if wrong:
        raise ConfigError(f"{source}: {wrong}")
    try:
        found: _Made = one() if isinstance(one, type) else one  # type: ignore[assignment]
        return remade(found, explicit_settings(found))
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    except Exception as error:  # noqa: BLE001  # foreign code may fail in any way of its own
        # The error of a channel may contain its secret.
        said = f": {error!s:.200}" if base is Detector else ""
        why = f"{type(error).__name__}{said}"
        raise ConfigError(f"{source}: {kind.__name__} cannot be made: {why}") from None
