"""klarm.yaml, environment and keyword overrides, merged into one checked configuration.

Later layers override earlier ones, setting by setting: defaults, the file, the environment, the
keywords of `klarm.init`. An error is raised immediately, with its source, its key and its value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from klarm.config.channels import SECTION as CHANNELS
from klarm.config.channels import ChannelSettings
from klarm.config.config import TOP_LEVEL, Config
from klarm.config.extras import defaults, given_detectors, installed
from klarm.config.file import find_file, parse_file
from klarm.config.reader import DETECTORS, INCIDENTS, RESERVED, Place, Reader, Sections
from klarm.detectors import CATALOGUE, Detector
from klarm.incidents import IncidentRules
from klarm.metrics import SECTION as METRICS_SECTION
from klarm.metrics import STEP, UserKey, check_user_keys
from klarm.settings import settings_of

SECTIONS: Sections = {
    INCIDENTS: settings_of(IncidentRules),
    **{kind.name: settings_of(kind) for kind in CATALOGUE},
}


def known_sections() -> Sections:
    """Return the sections of incidents and of every detector, installed ones included."""
    return {**SECTIONS, **defaults(installed(RESERVED)[0])}


def load(
    file: str | os.PathLike[str] | Config | None = None,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    overrides_from: str = "klarm.init()",
    recorded: Mapping[str, object] | None = None,
    lenient: bool = False,
) -> Config:
    """Return the configuration from all its layers; raise ConfigError if one is invalid.

    | argument | meaning |
    |---|---|
    | `file` | a path; by default KLARM_CONFIG, or klarm.yaml in the working directory, if any |
    | `file`, a `Config` | replaces the file and the environment |
    | `recorded` | the settings of a recorded run, unless a file is named: also replaces both |
    | `lenient` | for commands: sections that only a training script may know are ignored |
    """
    environment = os.environ if environment is None else environment
    overrides = dict(overrides or {})
    base = file if isinstance(file, Config) else None
    given = given_detectors(overrides.pop(DETECTORS, None), overrides_from, RESERVED)
    brought, broken = installed(RESERVED)
    own: dict[str, Detector] = {**brought, **(base.own_detectors if base else {})}
    own.update(given.detectors)
    reader = Reader({**SECTIONS, **defaults(own)}, broken, lenient=lenient)
    signals = {detector.signal for detector in own.values()}
    channels = ChannelSettings(signals, lenient=lenient)
    merged = reader.defaults()
    if base is not None:
        merged.update(reader.read(_of_config(base), source="the configuration"))
        channels.add(base.own_channels, source="the configuration")
        channels.add(base.channel_settings, source="the configuration")
        environment = {}
    elif recorded is not None:
        merged.update(reader.read(reader.known_part(recorded), source="the journal"))
        environment = {}
    if not isinstance(file, Config):
        path = find_file(file, environment, look_here=recorded is None)
        if path is not None:
            content = parse_file(path)
            merged.update(reader.read(content, source=str(path)))
            channels.add(content.get(CHANNELS), source=str(path), in_file=True)
    _merge(merged, reader.read_environment(environment, channels))
    _merge(merged, reader.read(given.settings, source=overrides_from))
    _merge(merged, reader.read(overrides, source=overrides_from))
    channels.add(overrides.get(CHANNELS), source=overrides_from)
    top = {name: merged["", name] for name in TOP_LEVEL}
    sections = {
        section: {name: merged[section, name] for name in settings}
        for section, settings in reader.sections.items()
    }
    metrics = {name: said for (section, name), said in merged.items() if isinstance(said, UserKey)}
    check_user_keys(metrics)
    step = metrics.pop(STEP, UserKey())
    checked = channels.checked()
    remarks = [*(base.remarks if base else ()), *channels.remarks, *reader.remarks]
    top["url"], login = _without_login(str(top["url"]))
    if login:
        remarks.append("url contains a login (name:password@host): messages leave it out")
    return Config(
        **top,  # type: ignore[arg-type]
        metrics=metrics,
        step_column=step.key,
        sections=sections,
        channel_settings=checked,
        channel_sources=channels.sources(),
        own_detectors=own,
        own_channels=channels.given,
        remarks=tuple(dict.fromkeys(remarks)),  # `base` has some of them, too
    )


def _of_config(config: Config) -> dict[str, object]:
    """Return a configuration as a layer, without its channels."""
    top = {name: getattr(config, name) for name in TOP_LEVEL}
    said = {name: user_key.as_dict() for name, user_key in config.metrics.items()}
    return {**top, METRICS_SECTION: said, **config.sections}


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
