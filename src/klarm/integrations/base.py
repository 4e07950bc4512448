"""How every hook starts: it checks settings when it is made, and starts its monitor with training.

| the framework | its hook |
|---|---|
| takes callbacks | `KlarmCallback(run, *, on_critical=..., config=..., **settings)` |
| takes them as a class (RLlib) | the same arguments: `KlarmCallback.with_settings(run, *, ...)` |
| has a logger to listen to | `watch(run, *, rank=..., config=..., **settings)`, returns a monitor |
| imports plugins by itself (verl) | a backend, without arguments: klarm.yaml has the settings |

The settings are those of `klarm.init`, including the user's own detectors and channels.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from klarm.api import current_monitor, start
from klarm.config import Config, load
from klarm.journal import folder_name, run_folder
from klarm.monitor import Monitor
from klarm.notices import Notices

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


def start_run(
    settings: Config, name: str = "", *, rank: int | None = None, output_dir: str = ""
) -> Monitor:
    """Start the monitor. `name` is the framework's name for the run, if the user gave none."""
    settings = _without_lost_secrets(settings)
    monitor = start(settings, folder_name(name) if name else "", rank, output_dir=output_dir)
    monitor.watch_end()
    return monitor


def is_replaced(monitor: Monitor, tracker: str) -> bool:
    """Return whether another run has started in this process since, and report it once.

    A tracker's log goes to one monitor: that of the run that started last.
    """
    now = current_monitor()
    if now is None or now is monitor:
        return False
    monitor.say(
        f"what is logged to {tracker} is no longer watched as run {monitor.run}: "
        f"run {now.run} has started since",
        about="another run",
    )
    return True


def _without_lost_secrets(settings: Config) -> Config:
    """Return settings that came from another process without the channels that lost a secret."""
    lost = settings.lost_secrets()
    if not lost:
        return settings
    notices = Notices(stderr=settings.console)
    for place in lost:
        notices.say_once(
            f"{place} is plain text, which is not passed on to another process: "
            "this channel is off; give the secret as {env: NAME} or {file: PATH}"
        )
    return settings.without_channels({place.split(".")[1] for place in lost})
