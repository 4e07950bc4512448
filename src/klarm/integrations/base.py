"""How every hook starts: it checks settings when it is made, and starts its monitor with training.

If a framework takes callbacks, its hook is `KlarmCallback(run, config=..., on_critical=...,
**settings)`. If it has a logger to listen to, its hook is `watch(run, config, **settings)`. The
settings are those of `klarm.init`, including the user's own detectors and channels.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from klarm.api import start
from klarm.config import Config, load
from klarm.journal import folder_name, run_folder
from klarm.monitor import Monitor

ConfigSource = str | os.PathLike[str] | Config | None


def checked_settings(
    framework: str,
    run: str | None,
    config: ConfigSource,
    settings: Mapping[str, object],
    asked_by: str,
) -> Config:
    """Return the settings in force, or raise ConfigError before anything has started.

    `framework` decides what keys mean (metrics/frameworks), unless the user has named another.
    """
    named = settings if run is None else {**settings, "run": run}
    checked = load(config, named, overrides_from=asked_by)
    if checked.run:
        run_folder(checked.dir, checked.run)  # raises if the name cannot be that of a folder
    return replace(checked, framework=checked.framework or framework)


def start_run(settings: Config, name: str = "", *, rank: int | None = None) -> Monitor:
    """Start the monitor. `name` is what the framework calls the run, where the user has not."""
    return start(settings, folder_name(name) if name else "", rank)
