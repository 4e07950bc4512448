"""The section `channels` of the configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from klarm.channels import Channel, channel_kind, installed_channels, known_channels
from klarm.config.extras import given_channel
from klarm.config.routes import TYPE, Route
from klarm.detectors import known_signals
from klarm.settings import (
    HIDDEN,
    ConfigError,
    Names,
    Secret,
    Setting,
    as_given,
    did_you_mean,
    explicit_settings,
    settings_of,
    shown_name,
)

SECTION = "channels"
_WILDCARDS = set("*?[")

_MAX_SHOWN = 12  # characters of an invalid value, including quotes


def recorded_channel(
    values: Mapping[str, object], given: Channel | None = None
) -> dict[str, object]:
    """Return the settings of a channel as a journal may hold them."""
    declared = settings_of(channel_kind(str(values[TYPE])) if given is None else type(given))
    recorded = {}
    for key, value in values.items():
        is_private = key in declared and declared[key].private
        shown = value.spelt() if isinstance(value, Secret) else value
        recorded[key] = HIDDEN if is_private and value else shown
    return recorded


def channel_defaults(recorded: Mapping[str, object]) -> dict[str, object]:
    """Return the defaults of a channel in a journal, in the form in which a journal holds them.

    If the kind of channel is not installed here, only the settings that all channels have.
    """
    declared = dict(settings_of(Route))
    if recorded.get(TYPE) in known_channels():
        with suppress(ConfigError):
            declared |= settings_of(channel_kind(str(recorded[TYPE])))
    defaults = {name: one.default for name, one in declared.items()}
    return {
        name: default.spelt() if isinstance(default, Secret) else default
        for name, default in defaults.items()
    }


class ChannelSettings:
    """Collects the section `channels` layer by layer, and checks it when all layers are there.

    It cannot be checked earlier: the file may name the type of a channel and the environment its
    secret.
    """

    def __init__(self, signals: Collection[str] = (), *, lenient: bool = False) -> None:
        """Prepare. `signals` are valid in addition to those of klarm's and installed detectors.

        With `lenient`, names that only a training script may know are not an error.
        """
        broken = installed_channels().broken.items()
        self.remarks = [f"the channel {type_} of {why}" for type_, why in broken]
        self.given: dict[str, Channel] = {}  # objects that a script passed
        self._signals = signals
        self._lenient = lenient
        self._file = ""
        # channel -> setting -> (value, the layer that set it)
        self._given: dict[str, dict[str, tuple[object, str]]] = {}
        # channel -> the layers that mention it; the channel may have no setting at all
        self._sources: dict[str, list[str]] = {}

    def add(self, content: object, source: str, *, in_file: bool = False) -> None:
        """Add the section of a file or of keywords. Messages show no values: some are secret."""
        if content is None:
            return
        if in_file:
            self._file = source
        if isinstance(content, list | tuple) and not in_file:
            content = _by_name(content, source)
        if not isinstance(content, Mapping):
            raise ConfigError(f"{source}: {SECTION} must be a section: a name, and its settings")
        for name, settings in content.items():
            if not isinstance(name, str) or not name or not name.isprintable():
                raise ConfigError(
                    f"{source}: {SECTION}: {name!r:.80} cannot be the name of a channel"
                )
            if "://" in name:
                raise ConfigError(
                    f"{source}: {SECTION}: {shown_name(name)} cannot be the name of a channel; "
                    "write `slack: {webhook_url: {env: SLACK_WEBHOOK}}`"
                )
            if isinstance(settings, Channel):
                self.given[name] = channel = given_channel(settings, source)
                given = self._of(name, source)
                given.update({key: (v, source) for key, v in explicit_settings(channel).items()})
                continue
            if settings is not None and not isinstance(settings, Mapping):
                raise ConfigError(
                    f"{source}: {SECTION}.{name} must be a section, as in "
                    f"`{name}: {{type: slack, webhook_url: {{env: SLACK_WEBHOOK}}}}`"
                )
            given = self._of(name, source)
            given.update({key: (value, source) for key, value in (settings or {}).items()})

    def add_variable(self, variable: str, place: str, text: str) -> None:
        """Add KLARM_CHANNELS__<NAME>__<SETTING>; `place` is the part after the section."""
        name, divider, key = place.rpartition("__")
        if not divider or not name or not key:
            raise ConfigError(
                f"environment: {variable} must be KLARM_CHANNELS__<NAME>__<SETTING>, "
                "as in KLARM_CHANNELS__SLACK__WEBHOOK_URL"
            )
        known = {_as_variable(given): given for given in self._given}
        source = f"environment: {variable}"
        given = self._of(known.get(name, name), source)
        given[key] = (_FromEnvironment(text, variable), source)

    def _of(self, name: str, source: str) -> dict[str, tuple[object, str]]:
        self._sources.setdefault(name, []).append(source)
        return self._given.setdefault(name, {})

    def sources(self) -> dict[str, str]:
        """Return for each channel the layers that mention it."""
        return {name: ", ".join(sources) for name, sources in self._sources.items()}

    def checked(self) -> dict[str, dict[str, object]]:
        """Return every setting of every channel, or raise ConfigError."""
        known = known_channels()
        return {
            name: self._checked(name, given)
            for name, given in self._given.items()
            if not (self._lenient and self._is_foreign(name, given, known))
        }

    def _is_foreign(self, name: str, given: Mapping[str, object], types: Collection[str]) -> bool:
        """Return whether this looks like the section of a channel that a training script passes."""
        return TYPE not in given and name not in types and not did_you_mean(name, types)

    def _checked(self, name: str, given: dict[str, tuple[object, str]]) -> dict[str, object]:
        where = f"{SECTION}.{name}"
        if name in self.given:
            type_, kind = self.given[name].type, type(self.given[name])
        else:
            type_ = _type_of(name, given, self._sources[name][0])
            kind = _kind_of(type_, f"{self._sources[name][0]}: {where}")
        known = {**settings_of(Route), **settings_of(kind)}
        values: dict[str, object] = {TYPE: type_}
        values |= {key: declared.default for key, declared in known.items()}
        for key, (value, source) in given.items():
            if key == TYPE:
                continue
            if key not in known:
                hint = did_you_mean(key, known) or f"; known: type, {', '.join(known)}"
                raise ConfigError(f"{source}: {where}.{shown_name(key)} is unknown{hint}")
            try:
                values[key] = self._read(known[key], value)
            except ConfigError as error:
                # A value in the section of a channel may be a misplaced secret, unless it is short.
                is_long = len(error.shown) > _MAX_SHOWN
                safe = error.without_value if is_long else str(error)
                raise ConfigError(f"{source}: {where}.{key} {safe}") from None
            self._remark(values[key], f"{where}.{key}", source)
        return values

    def _read(self, declared: Setting, value: object) -> object:
        if isinstance(value, _FromEnvironment):
            if declared.kind is Secret:
                return Secret(value.text.strip(), env=value.variable)
            value = value.text
        read = declared.read(value)
        if declared.name == "signals" and isinstance(read, Names):
            signals = sorted({*known_signals(), *self._signals})
            for name in read:
                if name in signals or _WILDCARDS & set(name):
                    continue
                hint = did_you_mean(name, signals)
                if hint or not self._lenient:
                    hint = hint or f"; known: {', '.join(signals)}"
                    raise ConfigError(f"{as_given(name)} is unknown{hint}")
        return read

    def _remark(self, value: object, what: str, source: str) -> None:
        if not isinstance(value, Secret) or not value.plain or source != self._file:
            return
        if not value.is_loopback_url:
            self.remarks.append(
                f"{source}: {what} is a secret in plain text, which everyone who sees the file can "
                "read; use {env: NAME} or {file: PATH} instead"
            )


@dataclass(frozen=True)
class _FromEnvironment:
    """A value from the environment, which is always text."""

    text: str
    variable: str

    def __repr__(self) -> str:
        return f"<from {self.variable}>"


def _type_of(name: str, given: Mapping[str, tuple[object, str]], first: str) -> str:
    type_, source = given.get(TYPE, (None, first))
    if isinstance(type_, _FromEnvironment):
        type_ = type_.text
    types = known_channels()
    if type_ is None and name in types:
        return name
    known = f"known: {', '.join(types)}"
    if type_ is None:
        hint = did_you_mean(name, types)
        raise ConfigError(f"{source}: {SECTION}.{name} needs a type{hint or f'; {known}'}")
    if not isinstance(type_, str) or type_ not in types:
        hint = did_you_mean(type_, types) or f"; {known}"
        given_type = as_given(shown_name(type_))
        raise ConfigError(f"{source}: {SECTION}.{name}.type {given_type} is unknown{hint}")
    return str(type_)


def _kind_of(type_: str, where: str) -> type[Channel]:
    try:
        return channel_kind(type_)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _by_name(channels: Sequence[object], source: str) -> dict[str, object]:
    """Return the channels that a script passes as a list, by their names."""
    found: dict[str, object] = {}
    for one in channels:
        channel = given_channel(one, source)
        name = channel.name or channel.type
        if name in found:
            raise ConfigError(f"{source}: {SECTION} has {name} twice: give one of them a name")
        found[name] = channel
    return found


def _as_variable(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")
