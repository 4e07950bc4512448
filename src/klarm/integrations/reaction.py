"""What an integration does when an incident becomes critical: nothing, save, or save and stop."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from klarm.config import Config, load
from klarm.journal import run_folder
from klarm.monitor import Monitor
from klarm.settings import ConfigError

OnCritical = Literal["none", "checkpoint", "stop"]


class Reaction:
    """Decides, once an incident, whether to save the training's state and whether to end it."""

    def __init__(
        self, on_critical: OnCritical, checkpoint_dir: str | os.PathLike[str] | None
    ) -> None:
        if on_critical not in get_args(OnCritical):
            raise ConfigError(
                f'on_critical is {on_critical!r}: it must be "none", "checkpoint" (save the '
                'training\'s state) or "stop" (save it, then end the training)'
            )
        self._on_critical = on_critical
        self._directory = Path(checkpoint_dir) if checkpoint_dir is not None else None
        self._known: set[int] = set()  # incidents that were acted upon

    @property
    def stops(self) -> bool:
        """Whether to end the training is part of it."""
        return self._on_critical == "stop"

    def is_due(self, monitor: Monitor) -> bool:
        """Tell whether there is an incident to act upon; each is told of once."""
        if self._on_critical == "none":
            return False
        new = {incident.id for incident in monitor.critical} - self._known
        self._known |= new
        return bool(new)

    def checkpoint_path(self, monitor: Monitor, settings: Config, step: int) -> Path:
        """Return where to save the state of a step: beside the journal, if nowhere else."""
        beside_journal = run_folder(settings.dir, monitor.run) / "checkpoints"
        return (self._directory or beside_journal).absolute() / f"critical-{step}"


def checked_settings(
    run: str | None,
    config: str | os.PathLike[str] | None,
    overrides: Mapping[str, object],
    asked_by: str,
) -> Config:
    """Return the settings in force, or raise ConfigError while nothing has started yet."""
    named = overrides if run is None else {**overrides, "run": run}
    settings = load(config, named, overrides_from=asked_by)
    if settings.run:
        run_folder(settings.dir, settings.run)  # refuses a name that cannot be a folder's
    return settings
