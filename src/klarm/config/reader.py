"""Reads one layer of settings, a mapping or the environment, and checks every setting."""

from __future__ import annotations

from collections.abc import Mapping

from klarm.channels import known_channels
from klarm.config.channels import SECTION as CHANNELS
from klarm.config.channels import ChannelSettings
from klarm.config.config import TOP_LEVEL
from klarm.config.file import FILE_VARIABLE
from klarm.config.hints import hint
from klarm.metrics import FRAMEWORKS, METRICS, STEP, read_user_key, tables
from klarm.metrics import SECTION as METRICS_SECTION
from klarm.settings import ConfigError, Setting, as_given, did_you_mean, shown_name

_PREFIX = "KLARM_"
# One underscore is part of a name; two separate a section from its setting.
_DIVIDER = "__"
INCIDENTS = "incidents"
# The keyword of `klarm.init` with which a script gives detectors of its own.
DETECTORS = "detectors"
# Names that no detector can have.
RESERVED = {*TOP_LEVEL, INCIDENTS, METRICS_SECTION, CHANNELS, DETECTORS}

# A setting's place: ("kl_explosion", "rolling_window"), or ("", "run") at the top level.
Place = tuple[str, str]
Sections = dict[str, dict[str, Setting]]


class Reader:
    """Checks every setting of a layer. Errors name the source of the setting."""

    def __init__(self, sections: Sections, broken: Mapping[str, str], *, lenient: bool) -> None:
        self.sections = sections
        self._broken = broken  # detectors of packages, and why they cannot be used
        self._lenient = lenient
        self._left_out: set[str] = set()  # a remark on each section that is not read

    @property
    def remarks(self) -> list[str]:
        """Remarks on installed parts that do not work, which the user may not need."""
        broken = [
            f"the detector {name} of {why}; it is left out" for name, why in self._broken.items()
        ]
        return [*broken, *sorted(self._left_out)]

    def defaults(self) -> dict[Place, object]:
        """Return every setting as it is declared."""
        return {
            (section, name): declared.default
            for section, settings in {"": TOP_LEVEL, **self.sections}.items()
            for name, declared in settings.items()
        }

    def read(self, content: Mapping[str, object], source: str) -> dict[Place, object]:
        """Check a nested mapping and return its settings by place."""
        sections = self.sections
        read: dict[Place, object] = {}
        for key, value in content.items():
            if key in sections or key == METRICS_SECTION:
                if value is None:  # an empty section
                    continue
                if isinstance(value, bool) and key in sections and "enabled" in sections[key]:
                    meant = f"{key}: {{enabled: {str(value).lower()}}}"
                    raise ConfigError(f"{source}: {key} is a section; did you mean {meant}?")
                if not isinstance(value, Mapping):
                    known = ", ".join(sections.get(key, METRICS))
                    raise ConfigError(
                        f"{source}: {key} must be a section ({known}), got {as_given(value)}"
                    )
                for name, inner in value.items():
                    read[key, name] = self._read_one(key, name, inner, source)
            elif key != CHANNELS and not self._is_foreign(key, value, source):
                read["", key] = self._read_one("", key, value, source)
        return read

    def known_part(self, recorded: Mapping[str, object]) -> dict[str, object]:
        """Return the known part of a configuration that another version may have written."""
        known: dict[str, object] = {name: recorded[name] for name in TOP_LEVEL if name in recorded}
        for section, settings in self.sections.items():
            values = recorded.get(section)
            if isinstance(values, Mapping):
                known[section] = {name: values[name] for name in settings if name in values}
        said = recorded.get(METRICS_SECTION)
        if isinstance(said, Mapping):
            known[METRICS_SECTION] = {name: said[name] for name in (STEP, *METRICS) if name in said}
        for section in recorded.keys() - {*self.sections, *RESERVED}:
            values = recorded[section]
            if isinstance(values, Mapping) and values.get("enabled"):
                self._left_out.add(
                    f"the run was watched with the detector {section}, which is not installed "
                    "here: it is left out"
                )
        return known

    def read_environment(
        self, environment: Mapping[str, str], channels: ChannelSettings
    ) -> dict[Place, object]:
        """Read KLARM_RUN, KLARM_<SECTION>__<SETTING> and KLARM_METRICS__<METRIC>__KIND.

        A name with the divider must be one of klarm's. A name without it may belong to another
        program (Kubernetes sets KLARM_PORT for a service called klarm), so it is refused only if it
        is a near miss of one of klarm's.
        """
        read: dict[Place, object] = {}
        said: dict[str, dict[str, str]] = {}  # by metric: key and kind are separate variables
        plain = {_PREFIX + name.upper(): name for name in TOP_LEVEL}
        nested = [
            f"{_PREFIX}{section}{_DIVIDER}{name}".upper()
            for section, settings in self.sections.items()
            for name in settings
        ]
        for variable, text in environment.items():
            if not variable.startswith(_PREFIX) or text == "" or variable == FILE_VARIABLE:
                continue
            source = f"environment: {variable}"
            if _DIVIDER in variable:
                section, _, name = variable.removeprefix(_PREFIX).lower().partition(_DIVIDER)
                if section == CHANNELS:
                    channels.add_variable(variable, name, text)
                elif section == METRICS_SECTION:
                    metric, _, part = name.partition(_DIVIDER)
                    said.setdefault(metric, {})[part or "key"] = text
                    self._read_one(section, metric, {part or "key": text}, source)
                elif section in self.sections:
                    read[section, name] = self._read_one(section, name, text, source)
                elif not self._is_foreign(section, {name: text}, source):
                    self._refuse_variable(variable, section, name)
            elif variable in plain:
                read["", plain[variable]] = self._read_one("", plain[variable], text, source)
            elif variable.startswith(f"{_PREFIX}{CHANNELS.upper()}_"):
                channels.add_variable(variable, "", text)  # raises, with the right spelling
            elif near := _near_miss(variable, [*plain, FILE_VARIABLE], nested):
                raise ConfigError(f"environment: {variable} is unknown; did you mean {near}?")
        for metric, parts in said.items():
            read[METRICS_SECTION, metric] = self._read_one(
                METRICS_SECTION, metric, parts, "environment"
            )
        return read

    def _refuse_variable(self, variable: str, section: str, name: str) -> None:
        if section in known_channels():
            meant = f"{_PREFIX}{CHANNELS}{_DIVIDER}{section}{_DIVIDER}{name}".upper()
            raise ConfigError(f"environment: {variable}: {section} is a channel: use {meant}")
        known = [CHANNELS, METRICS_SECTION, *self.sections]
        near = did_you_mean(section, known) or f"; known: {', '.join(known)}"
        raise ConfigError(f"environment: {variable}: no section {section!r}{near}")

    def _is_foreign(self, key: str, value: object, source: str) -> bool:
        """Return whether to ignore a section, because its detector is unknown here.

        If the detector is installed but broken, its section is an error: the user wants it.
        """
        if key in self._broken:
            raise ConfigError(f"{source}: the detector {key} of {self._broken[key]}")
        known = [*TOP_LEVEL, METRICS_SECTION, CHANNELS, *self.sections]
        if (
            not self._lenient
            or not isinstance(value, Mapping)
            or _is_channel(key, value)
            or did_you_mean(key, known)
        ):
            return False
        self._left_out.add(
            f"{source}: {shown_name(key)} is neither a section of klarm nor of an installed "
            "package; it is ignored here, because the training script may know it"
        )
        return True

    def _read_one(self, section: str, name: str, value: object, source: str) -> object:
        if section == METRICS_SECTION:
            try:
                return read_user_key(name, value)
            except ConfigError as error:
                raise ConfigError(f"{source}: {error}") from None
        known = self.sections[section] if section else TOP_LEVEL
        spelt = f"{section}.{shown_name(name)}" if section else shown_name(name)
        if name not in known:
            if not section and _is_channel(name, value):
                raise ConfigError(
                    f"{source}: {name} is a channel: put it under {CHANNELS}:, as in "
                    f"`{CHANNELS}: {{{name}: ...}}`"
                )
            if section:
                instead = did_you_mean(name, known) or f"; known: {', '.join(known)}"
            else:
                instead = hint(name, self.sections)
            raise ConfigError(f"{source}: {spelt} is unknown{instead}")
        try:
            checked = known[name].read(value)
            if spelt == "framework":
                _check_framework(str(checked))
            if spelt == "dir" and not checked:
                raise ConfigError("must name a folder, got ''")
            if spelt == "dir" and "\0" in str(checked):
                raise ConfigError("must name a folder, and no name has a NUL character")
            return checked
        except ConfigError as error:
            raise ConfigError(f"{source}: {spelt} {error}") from None


def _check_framework(name: str) -> None:
    """Refuse a spelling mistake. A framework that klarm does not know is allowed.

    >>> _check_framework("my-own-trainer")
    """
    known = [known for known in FRAMEWORKS if "/" not in known]
    near = "" if any(tables(name)) else did_you_mean(name.lower(), known, cutoff=0.7)
    if near:
        raise ConfigError(f"{name!r} is unknown{near}")


def _near_miss(variable: str, plain: list[str], nested: list[str]) -> str:
    """Return the variable of klarm's that was probably meant, or nothing.

    >>> _near_miss("KLARM_ENABLED", ["KLARM_RUN"], ["KLARM_KL_BUDGET__ENABLED"])
    'KLARM_KL_BUDGET__ENABLED'
    >>> _near_miss("KLARM_PORT", ["KLARM_RUN"], ["KLARM_IMPORTANCE__ENABLED"])
    ''
    """
    import difflib

    words = f"_{variable.removeprefix(_PREFIX)}_"
    whole = [name for name in nested if words in f"{name.replace(_DIVIDER, '_')}_"]
    known = [*plain, *nested]
    cut = [name for name in known if name.startswith(variable)]
    near = difflib.get_close_matches(variable, known, n=1, cutoff=0.88)
    return next(iter([*near, *whole, *cut]), "")


def _is_channel(name: str, value: object) -> bool:
    types = known_channels()
    type_ = value.get("type") if isinstance(value, Mapping) else None
    return name in types or (isinstance(type_, str) and type_ in types)
