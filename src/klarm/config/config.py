"""A checked configuration, and the detectors, rules and channels that it makes."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from klarm.channels import Channel
from klarm.config.channels import SECTION as CHANNELS
from klarm.config.channels import recorded_channel
from klarm.config.extras import remade
from klarm.config.routes import Route, route_of
from klarm.detectors import CATALOGUE, Detector
from klarm.incidents import IncidentRules
from klarm.metrics import SECTION as METRICS_SECTION
from klarm.metrics import STEP, UserKey
from klarm.settings import ConfigError, Names, Secret, setting, settings_of
from klarm.text import clean


@dataclass(frozen=True, kw_only=True)
class Config:
    """A checked configuration."""

    run: str = setting(
        "", "name of the run; the same name again resumes it (empty: made from the time)"
    )
    dir: str = setting("klarm_runs", "where each run keeps its journal, in a folder of its own")
    console: bool = setting(True, "report incidents and notices on stderr")
    console_alerts: bool = setting(
        False, "show every alert on stderr, one line each; false: only the first of an episode"
    )
    framework: str = setting(
        "",
        "the framework that logs, as in sb3 or trl/RLOO; some keys depend on it (hooks set it)",
    )
    url: str = setting("", "link to a page about the run, put into messages")
    gpus: int = setting(
        0, "number of GPUs of the run; with gpu_hour_price, messages include the cost", at_least=0
    )
    gpu_hour_price: float = setting(0.0, "what an hour of one GPU costs, in dollars", at_least=0)
    deliver: str = setting(
        "here",
        "what sends messages: this process (here), or `klarm deliver` (elsewhere)",
        choices=("here", "elsewhere"),
    )
    disabled: bool = setting(
        False, "switch klarm off: nothing is watched, recorded or sent, whatever the script calls"
    )
    metrics: Mapping[str, UserKey] = field(default_factory=dict)
    step_column: str = ""  # the step column of a log; empty: klarm finds it
    sections: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    channel_settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    channel_sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    # Detectors and channels of scripts and packages, by name. Monitors get copies.
    own_detectors: Mapping[str, Detector] = field(default_factory=dict, compare=False)
    own_channels: Mapping[str, Channel] = field(default_factory=dict, compare=False)
    # Remarks on settings that are allowed but not recommended.
    remarks: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def load(cls, file: str | os.PathLike[str] | None = None, /, **overrides: object) -> Config:
        """Return the settings that `klarm.init` would use: klarm.yaml, environment and keywords.

        Raises ConfigError if one is invalid. `klarm.init(config=...)` takes the result.
        """
        from klarm.config.layers import load  # imported here, because it imports this module

        return load(file, overrides, overrides_from="Config.load()")

    def detectors(self) -> list[Detector]:
        """Make the detectors, klarm's own and others, each with its settings."""
        ours = [kind(**self.sections.get(kind.name, {})) for kind in CATALOGUE]  # type: ignore[arg-type]
        others = self.own_detectors.items()
        return [*ours, *(remade(one, self.sections.get(name, {})) for name, one in others)]

    def incident_rules(self) -> IncidentRules:
        """Return when incidents open and when they are resolved."""
        return IncidentRules(**self.sections.get("incidents", {}))  # type: ignore[arg-type]

    def channels(self) -> list[Route]:
        """Make the channels that are enabled; raise ConfigError if a secret is missing."""
        return [
            self._route(name, values)
            for name, values in self.channel_settings.items()
            if values["enabled"]
        ]

    def only(self, channel: str) -> Config:
        """Return a copy with only one channel, so that the secrets of others are not needed."""
        return replace(self, channel_settings={channel: self.channel_settings[channel]})

    def lost_secrets(self) -> list[str]:
        """Return the settings of channels that were plain text in another process."""
        return [
            f"{CHANNELS}.{name}.{key}"
            for name, values in self.channel_settings.items()
            for key, value in values.items()
            if isinstance(value, Secret) and value.lost
        ]

    def without_channels(self, names: Collection[str]) -> Config:
        """Return a copy without some of its channels."""
        kept = {name: v for name, v in self.channel_settings.items() if name not in names}
        return replace(self, channel_settings=kept)

    def _route(self, name: str, values: Mapping[str, object]) -> Route:
        try:
            return route_of(name, values, self.own_channels.get(name))
        except ConfigError as error:
            raise ConfigError(f"{self.channel_sources[name]}: {error}") from None

    def as_dict(self) -> dict[str, object]:
        """Return every setting as in klarm.yaml, without secrets."""
        top = {name: getattr(self, name) for name in TOP_LEVEL}
        keys = {**self.metrics, **({STEP: UserKey(self.step_column)} if self.step_column else {})}
        top[METRICS_SECTION] = {name: said.as_dict() for name, said in keys.items()}
        channels = {
            name: recorded_channel(values, self.own_channels.get(name))
            for name, values in self.channel_settings.items()
        }
        sections = {name: dict(values) for name, values in self.sections.items()}
        recorded: dict[str, object] = _cleaned({**top, **sections, CHANNELS: channels})
        return recorded


def _cleaned(value: Any) -> Any:
    """Return settings whose texts can be written as UTF-8: a path may contain any bytes."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {_cleaned(name): _cleaned(inner) for name, inner in value.items()}
    return Names(map(clean, value)) if isinstance(value, Names) else value


TOP_LEVEL = settings_of(Config)
