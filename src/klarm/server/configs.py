"""Settings: those of a run, how runs differ, and which settings exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from klarm.config import SECTION as CHANNELS
from klarm.config import TOP_LEVEL, channel_defaults, known_sections
from klarm.detectors import known_detectors
from klarm.incidents import IncidentRules
from klarm.server.index import Index
from klarm.server.requests import Names, Query
from klarm.server.served_run import ServedRun
from klarm.settings import settings_of

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


class RunsToCompare(Query, frozen=True):
    """Which runs to compare."""

    runs: Annotated[Names, Meta(min_length=2, max_length=20)]


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
        ChangedSetting(name, value, default)
        for name, value in _flat(run.settings)
        if (default := _default(name, of_channels)) != value and name not in _NAMES
    ]
    return RunConfig(run.id, dict(run.settings), changed)


def compare(index: Index, asked: RunsToCompare) -> Comparison:
    """Return how runs differ in their settings, and how to align them."""
    runs = [index.run(id_) for id_ in asked.runs]
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
            differences.append(Difference(name, _default(name, of_channels), values))
    return Comparison(
        runs=[_compared(run) for run in runs],
        metrics=list(dict.fromkeys(name for run in runs for name in run.metric_names())),
        differences=differences,
        same=len(names) - len(differences),
    )


def settings_catalogue(_: Index) -> SettingsCatalogue:
    """Return every setting of detectors and incidents."""
    detectors = [
        _section(kind, kind.name, kind.signal, list(kind.watches)) for kind in known_detectors()
    ]
    return SettingsCatalogue([*detectors, _section(IncidentRules, "incidents", "", [])])


def _section(owner: type, name: str, signal: str, metrics: list[str]) -> Section:
    about = (owner.__doc__ or "").strip().splitlines()[0]
    settings = [
        SettingInSection(
            *(declared.name, declared.kind.__name__, declared.default, declared.meaning),
            *(declared.above, declared.at_least, list(declared.choices)),
        )
        for declared in settings_of(owner).values()
    ]
    return Section(name, signal, metrics, about, settings)


def _compared(run: ServedRun) -> ComparedRun:
    summary = run.summary
    first = next((known for known in run.incidents.values() if not known.was_rolled_back), None)
    incident = None
    if first is not None:
        step = first.last.started
        incident = IncidentToAlignBy(first.id, step, run.columns.time_of(step))
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
    """Return the default of a setting; None if klarm does not have the setting."""
    section, dot, rest = name.partition(".")
    if section == CHANNELS:
        default = of_channels.get(name)
    else:
        declared = known_sections().get(section, {}).get(rest) if dot else TOP_LEVEL.get(name)
        default = declared.default if declared else None
    return list(default) if isinstance(default, tuple) else default  # as JSON has it
