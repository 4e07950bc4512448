"""Settings: those of a run, how runs differ, and which settings exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from klarm.config import SECTION as CHANNELS
from klarm.config import TOP_LEVEL, channel_defaults, known_sections
from klarm.detectors import known_detectors
from klarm.incidents import IncidentRules
from klarm.server.served_run import ServedRun
from klarm.settings import settings_of

_MISSING = object()
# Settings that identify a run and do not affect how it is watched.
_NAMES = ("run", "dir", "url")


class ChangedSetting(msgspec.Struct):
    """A setting that differs from its default."""

    setting: str
    value: Any
    default: Any


class RunConfig(msgspec.Struct):
    """The settings of a run."""

    run: str
    settings: dict[str, Any]
    changed: list[ChangedSetting]


class IncidentToAlignBy(msgspec.Struct):
    """The first incident of a run."""

    id: str
    step: int
    time: float | None


class ComparedRun(msgspec.Struct):
    """A run, with the positions by which it can be aligned with others."""

    id: str
    name: str
    first_step: int | None
    started: float
    incident: IncidentToAlignBy | None


class Difference(msgspec.Struct):
    """A setting in which runs differ."""

    setting: str
    default: Any
    values: dict[str, Any]


class Comparison(msgspec.Struct):
    """Several runs, and how they differ."""

    runs: list[ComparedRun]
    metrics: list[str]
    differences: list[Difference]
    same: int


class SettingInSection(msgspec.Struct):
    """One setting."""

    name: str
    kind: str
    default: Any
    meaning: str
    above: float | None
    at_least: float | None
    choices: list[str]


class Section(msgspec.Struct):
    """A detector, or the rules of incidents, with its settings."""

    name: str
    signal: str
    metrics: list[str]
    about: str
    settings: list[SettingInSection]


class SettingsCatalogue(msgspec.Struct):
    """All settings that can be tried."""

    sections: list[Section]


def config_of(run: ServedRun) -> RunConfig:
    """Return the settings that the latest process of a run had."""
    of_channels = _channel_defaults(run.settings)
    changed = [
        ChangedSetting(name, value, None if default is _MISSING else default)
        for name, value in _flat(run.settings)
        if (default := _default(name, of_channels)) != value and name not in _NAMES
    ]
    return RunConfig(run.id, dict(run.settings), changed)


def compare(runs: list[ServedRun]) -> Comparison:
    """Return how runs differ in their settings, and how to align them."""
    # The settings of an unreadable run are not known, so it is left out of the comparison.
    settings = {run.id: dict(_flat(run.settings)) for run in runs if run.settings}
    names = sorted({name for values in settings.values() for name in values} - set(_NAMES))
    of_channels = {
        name: value for run in runs for name, value in _channel_defaults(run.settings).items()
    }
    differences = []
    for name in names:
        values = {id_: known[name] for id_, known in settings.items() if name in known}
        distinct = {msgspec.json.encode(value) for value in values.values()}
        if len(distinct) > 1 or len(values) < len(settings):
            default = _default(name, of_channels)
            differences.append(Difference(name, None if default is _MISSING else default, values))
    return Comparison(
        runs=[_compared(run) for run in runs],
        metrics=list(dict.fromkeys(name for run in runs for name in run.metric_names())),
        differences=differences,
        same=len(names) - len(differences),
    )


def settings_catalogue() -> SettingsCatalogue:
    """Return every setting of detectors and incidents."""
    kinds: list[tuple[str, str, list[str], type]] = [
        *((kind.name, kind.signal, list(kind.watches), kind) for kind in known_detectors()),
        ("incidents", "", [], IncidentRules),
    ]
    return SettingsCatalogue(
        [
            Section(
                name,
                signal,
                metrics,
                (owner.__doc__ or "").strip().splitlines()[0],
                [
                    SettingInSection(
                        declared.name,
                        declared.kind.__name__,
                        declared.default,
                        declared.meaning,
                        declared.above,
                        declared.at_least,
                        list(declared.choices),
                    )
                    for declared in settings_of(owner).values()
                ],
            )
            for name, signal, metrics, owner in kinds
        ]
    )


def _compared(run: ServedRun) -> ComparedRun:
    summary = run.summary
    first = next((known for known in run.incidents.values() if not known.was_rolled_back), None)
    incident = None
    if first is not None:
        step = first.last.started
        incident = IncidentToAlignBy(first.id, step, run.time_of(step))
    return ComparedRun(summary.id, summary.name, summary.first_step, summary.started, incident)


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings by their dotted name."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{name}.")
        elif not isinstance(value, Mapping):
            yield f"{before}{name}", value


def _channel_defaults(settings: Mapping[str, Any]) -> dict[str, object]:
    """Return the defaults of the channels of a run, by their dotted name."""
    channels = settings.get(CHANNELS)
    return {
        f"{CHANNELS}.{channel}.{name}": default
        for channel, recorded in (channels if isinstance(channels, Mapping) else {}).items()
        if isinstance(recorded, Mapping)
        for name, default in channel_defaults(recorded).items()
    }


def _default(name: str, of_channels: Mapping[str, object]) -> object:
    section, dot, rest = name.partition(".")
    if section == CHANNELS:
        default = of_channels.get(name, _MISSING)
    else:
        declared = known_sections().get(section, {}).get(rest) if dot else TOP_LEVEL.get(name)
        default = _MISSING if declared is None else declared.default
    return list(default) if isinstance(default, tuple) else default  # as JSON has it
