"""klarm: an alarm for RL post-training runs.

The public names load when they are first used, so that `import klarm` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from klarm.version import __version__

if TYPE_CHECKING:
    from klarm.api import finish, init, log
    from klarm.channels import Channel
    from klarm.channels.message import Message
    from klarm.config import Config
    from klarm.detectors import Detector
    from klarm.monitor import Monitor
    from klarm.settings import ConfigError, Secret, setting
    from klarm.types import Alert, Event, Incident, Severity

__all__ = [
    "Alert",
    "Channel",
    "Config",
    "ConfigError",
    "Detector",
    "Event",
    "Incident",
    "Message",
    "Monitor",
    "Secret",
    "Severity",
    "__version__",
    "finish",
    "init",
    "log",
    "setting",
]

_HOMES = {
    "Alert": "types",
    "Channel": "channels",
    "Config": "config",
    "ConfigError": "settings",
    "Detector": "detectors",
    "Event": "types",
    "Incident": "types",
    "Message": "channels.message",
    "Monitor": "monitor",
    "Secret": "settings",
    "Severity": "types",
    "finish": "api",
    "init": "api",
    "log": "api",
    "setting": "settings",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'klarm' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"klarm.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
