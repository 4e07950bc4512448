"""klarm.yaml, environment and keyword overrides, merged into one checked configuration.

Later layers override earlier ones, setting by setting: defaults, the file, the environment, the
keywords of `klarm.init`. An error is raised immediately, with its source, its key and its value.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from klarm.channels import CHANNELS as CHANNEL_TYPES
from klarm.config.channels import SECTION as CHANNELS
from klarm.config.channels import ChannelSettings, Route, recorded_channel, route_of
from klarm.config.file import FILE_VARIABLE, find_file, parse_file
from klarm.detectors import CATALOGUE, Detector
from klarm.incidents import IncidentRules
from klarm.metrics import FRAMEWORKS, METRICS, UserKey, check_user_keys, read_user_key, tables
from klarm.metrics import SECTION as METRICS_SECTION
from klarm.settings import (
    ConfigError,
    Names,
    Secret,
    Setting,
    as_given,
    did_you_mean,
    setting,
    settings_of,
    shown_name,
)
from klarm.text import clean

_PREFIX = "KLARM_"
# A single underscore is part of a name; two separate a section from its setting.
_DIVIDER = "__"

# A setting's place: ("kl_explosion", "rolling_window"), or ("", "run") at the top level.
Place = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Config:
    """A checked configuration."""

    run: str = setting(
        "", "name of the run; the same name again resumes it (empty: made from the time)"
    )
    dir: str = setting("klarm_runs", "folder that holds one folder per run, with its journal")
    console: bool = setting(True, "report what happens on stderr")
    console_alerts: bool = setting(
        False, "also report every single alert on stderr; otherwise only incidents"
    )
    framework: str = setting(
        "", "which framework logs, such as sb3 or trl/RLOO (integrations set it)"
    )
    url: str = setting("", "link to a page about the run, put into messages")
    gpus: int = setting(
        0, "GPUs the run uses; with gpu_hour_price, messages show the cost", at_least=0
    )
    gpu_hour_price: float = setting(0.0, "cost per GPU hour, in dollars", at_least=0)
    deliver: str = setting(
        "here",
        "who sends messages: this process (here) or `klarm deliver` (elsewhere)",
        choices=("here", "elsewhere"),
    )
    metrics: Mapping[str, UserKey] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    channel_settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    channel_sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    # Warnings about settings that are valid but not recommended.
    remarks: tuple[str, ...] = field(default=(), compare=False)

    def detectors(self) -> list[Detector]:
        """Create the detectors of the catalogue, each with its settings."""
        return [kind(**self.sections.get(kind.name, {})) for kind in CATALOGUE]  # type: ignore[arg-type]

    def incident_rules(self) -> IncidentRules:
        """Return the rules for opening and resolving incidents."""
        return IncidentRules(**self.sections.get("incidents", {}))  # type: ignore[arg-type]

    def channels(self) -> list[Route]:
        """Create the enabled channels; raise ConfigError if a secret is missing."""
        return [
            self._route(name, values)
            for name, values in self.channel_settings.items()
            if values["enabled"]
        ]

    def only(self, channel: str) -> Config:
        """Return the configuration with one channel only, so that no other secret is needed."""
        return replace(self, channel_settings={channel: self.channel_settings[channel]})

    def lost_secrets(self) -> list[str]:
        """Return the channel settings whose plain-text secret did not reach this process."""
        return [
            f"{CHANNELS}.{name}.{key}"
            for name, values in self.channel_settings.items()
            for key, value in values.items()
            if isinstance(value, Secret) and value.lost
        ]

    def without_channels(self, names: Collection[str]) -> Config:
        """Return the configuration without some of its channels."""
        kept = {name: v for name, v in self.channel_settings.items() if name not in names}
        return replace(self, channel_settings=kept)

    def _route(self, name: str, values: Mapping[str, object]) -> Route:
        try:
            return route_of(name, values)
        except ConfigError as error:
            raise ConfigError(f"{self.channel_sources[name]}: {error}") from None

    def as_dict(self) -> dict[str, object]:
        """Return every setting as klarm.yaml would contain it, without secrets."""
        top = {name: getattr(self, name) for name in TOP_LEVEL}
        top[METRICS_SECTION] = {name: said.as_dict() for name, said in self.metrics.items()}
        channels = {name: recorded_channel(v) for name, v in self.channel_settings.items()}
        sections = {name: dict(values) for name, values in self.sections.items()}
        recorded: dict[str, object] = _cleaned({**top, **sections, CHANNELS: channels})
        return recorded


def _cleaned(value: Any) -> Any:
    """Return settings with text that can be encoded: the name of a folder may be any bytes."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {_cleaned(name): _cleaned(inner) for name, inner in value.items()}
    return Names(map(clean, value)) if isinstance(value, Names) else value


TOP_LEVEL = settings_of(Config)
SECTIONS: dict[str, dict[str, Setting]] = {
    "incidents": settings_of(IncidentRules),
    **{kind.name: settings_of(kind) for kind in CATALOGUE},
}


def load(
    file: str | os.PathLike[str] | None = None,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    overrides_from: str = "klarm.init()",
    recorded: Mapping[str, object] | None = None,
) -> Config:
    """Return the configuration from all its layers; raise ConfigError if one is invalid.

    Without `file`, the file is the one that KLARM_CONFIG names, or klarm.yaml in the current
    directory if it exists. `recorded` is the configuration of an earlier run: it replaces the
    default file and the environment.
    """
    environment = os.environ if environment is None else environment
    merged: dict[Place, object] = {
        (section, name): declared.default
        for section, settings in {"": TOP_LEVEL, **SECTIONS}.items()
        for name, declared in settings.items()
    }
    if recorded is not None:
        merged.update(_read_mapping(_known_part(recorded), source="the journal"))
        environment = {}
    path = find_file(file, environment, look_here=recorded is None)
    channels = ChannelSettings()
    if path is not None:
        content = parse_file(path)
        merged.update(_read_mapping(content, source=str(path)))
        channels.add(content.get(CHANNELS), source=str(path), in_file=True)
    _merge(merged, _read_environment(environment, channels))
    _merge(merged, _read_mapping(overrides or {}, source=overrides_from))
    channels.add((overrides or {}).get(CHANNELS), source=overrides_from)
    top = {name: merged["", name] for name in TOP_LEVEL}
    sections = {
        section: {name: merged[section, name] for name in settings}
        for section, settings in SECTIONS.items()
    }
    metrics = {name: said for (section, name), said in merged.items() if isinstance(said, UserKey)}
    check_user_keys(metrics)
    checked = channels.checked()
    remarks = [*channels.remarks]
    top["url"], login = _without_login(str(top["url"]))
    if login:
        remarks.append("url contains a login (name:password@host): messages leave it out")
    return Config(
        **top,  # type: ignore[arg-type]
        metrics=metrics,
        sections=sections,
        channel_settings=checked,
        channel_sources=channels.sources(),
        remarks=tuple(remarks),
    )


def _without_login(url: str) -> tuple[str, bool]:
    """Return the URL of a run without a login, and whether there was one.

    >>> _without_login("https://me:pw@wandb.example.org/7b")
    ('https://wandb.example.org/7b', True)
    """
    scheme, divider, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    _, at, host = place.rpartition("@")
    return (f"{scheme}{divider}{host}{slash}{path}", True) if divider and at else (url, False)


def _merge(merged: dict[Place, object], layer: Mapping[Place, object]) -> None:
    """Merge a layer over earlier ones; a kind without a key applies to the key named earlier."""
    for place, value in layer.items():
        below = merged.get(place)
        if isinstance(value, UserKey) and isinstance(below, UserKey) and not value.key:
            value = value._replace(key=below.key)  # noqa: PLW2901
        merged[place] = value


def _read_mapping(content: Mapping[str, object], source: str) -> dict[Place, object]:
    """Check a nested mapping and return its settings by place."""
    read: dict[Place, object] = {}
    for key, value in content.items():
        if key in SECTIONS or key == METRICS_SECTION:
            if value is None:  # an empty section
                continue
            if isinstance(value, bool) and key in SECTIONS and "enabled" in SECTIONS[key]:
                meant = f"{key}: {{enabled: {str(value).lower()}}}"
                raise ConfigError(f"{source}: {key} is a section; did you mean {meant}?")
            if not isinstance(value, Mapping):
                known = ", ".join(SECTIONS.get(key, METRICS))
                raise ConfigError(
                    f"{source}: {key} must be a section ({known}), got {as_given(value)}"
                )
            for name, inner in value.items():
                read[key, name] = _read_one(key, name, inner, source)
        elif key != CHANNELS:  # ChannelSettings reads that section
            read["", key] = _read_one("", key, value, source)
    return read


def _known_part(recorded: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of a recorded configuration that this version of klarm knows."""
    known: dict[str, object] = {name: recorded[name] for name in TOP_LEVEL if name in recorded}
    for section, settings in SECTIONS.items():
        values = recorded.get(section)
        if isinstance(values, Mapping):
            known[section] = {name: values[name] for name in settings if name in values}
    said = recorded.get(METRICS_SECTION)
    if isinstance(said, Mapping):
        known[METRICS_SECTION] = {name: said[name] for name in METRICS if name in said}
    return known


def _check_framework(name: str) -> None:
    """Raise ConfigError for a typo; a framework that klarm does not know is not an error.

    >>> _check_framework("my-own-trainer")
    """
    known = [known for known in FRAMEWORKS if "/" not in known]
    hint = "" if any(tables(name)) else did_you_mean(name.lower(), known, cutoff=0.7)
    if hint:
        raise ConfigError(f"{name!r} is unknown{hint}")


def _read_one(section: str, name: str, value: object, source: str) -> object:
    if section == METRICS_SECTION:
        try:
            return read_user_key(name, value)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None
    known = SECTIONS[section] if section else TOP_LEVEL
    spelt = f"{section}.{shown_name(name)}" if section else shown_name(name)
    if name not in known:
        if not section and _is_channel(name, value):
            raise ConfigError(
                f"{source}: {name} is a channel: put it under {CHANNELS}:, as in "
                f"`{CHANNELS}: {{{name}: ...}}`"
            )
        right = known if section else [*TOP_LEVEL, METRICS_SECTION, CHANNELS, *SECTIONS]
        hint = did_you_mean(name, right) or f"; known are {', '.join(right)}"
        raise ConfigError(f"{source}: {spelt} is unknown{hint}")
    try:
        checked = known[name].read(value)
        if spelt == "framework":
            _check_framework(str(checked))
        if spelt == "dir" and not checked:
            raise ConfigError("must name a folder, got ''")
        if spelt == "dir" and "\0" in str(checked):
            raise ConfigError("must name a folder, and a name cannot contain a NUL character")
        return checked
    except ConfigError as error:
        raise ConfigError(f"{source}: {spelt} {error}") from None


def _is_channel(name: str, value: object) -> bool:
    type_ = value.get("type") if isinstance(value, Mapping) else None
    return name in CHANNEL_TYPES or (isinstance(type_, str) and type_ in CHANNEL_TYPES)


def _read_environment(
    environment: Mapping[str, str], channels: ChannelSettings
) -> dict[Place, object]:
    """Read KLARM_RUN, KLARM_DIR ..., KLARM_<SECTION>__<SETTING> and KLARM_METRICS__<METRIC>__KIND.

    A name with the divider is meant for klarm and must be valid. A name without it may belong to
    another program (Kubernetes sets KLARM_PORT for a service called klarm), so it is an error only
    if it looks like a typo of a name that klarm knows.
    """
    read: dict[Place, object] = {}
    said: dict[str, dict[str, str]] = {}  # per metric: key and kind are separate variables
    plain = {_PREFIX + name.upper(): name for name in TOP_LEVEL}
    sections = [METRICS_SECTION, *SECTIONS]
    nested = [
        f"{_PREFIX}{section}{_DIVIDER}{name}".upper()
        for section, settings in SECTIONS.items()
        for name in settings
    ]
    for variable, text in environment.items():
        if not variable.startswith(_PREFIX) or text == "" or variable == FILE_VARIABLE:
            continue
        if _DIVIDER in variable:
            section, _, name = variable.removeprefix(_PREFIX).lower().partition(_DIVIDER)
            if section == CHANNELS:
                channels.add_variable(variable, name, text)
                continue
            if section in CHANNEL_TYPES:
                meant = f"{_PREFIX}{CHANNELS}{_DIVIDER}{section}{_DIVIDER}{name}".upper()
                raise ConfigError(f"environment: {variable}: {section} is a channel: use {meant}")
            if section not in sections:
                known = [CHANNELS, *sections]
                hint = did_you_mean(section, known) or f"; known are {', '.join(known)}"
                raise ConfigError(f"environment: {variable}: no section {section!r}{hint}")
            if section == METRICS_SECTION:
                metric, _, part = name.partition(_DIVIDER)
                said.setdefault(metric, {})[part or "key"] = text
                _read_one(section, metric, {part or "key": text}, f"environment: {variable}")
                continue
            read[section, name] = _read_one(section, name, text, f"environment: {variable}")
        elif variable in plain:
            read["", plain[variable]] = _read_one(
                "", plain[variable], text, f"environment: {variable}"
            )
        elif variable.startswith(f"{_PREFIX}{CHANNELS.upper()}_"):
            channels.add_variable(variable, "", text)  # raises an error that shows the spelling
        elif hint := did_you_mean(
            variable.removeprefix(_PREFIX), nested, cutoff=0.95
        ) or did_you_mean(variable, [*plain, FILE_VARIABLE, *nested], cutoff=0.88):
            raise ConfigError(f"environment: {variable} is unknown{hint}")
    for metric, parts in said.items():
        read[METRICS_SECTION, metric] = _read_one(METRICS_SECTION, metric, parts, "environment")
    return read
