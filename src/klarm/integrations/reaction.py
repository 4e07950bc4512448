"""What an integration does when an incident becomes critical: nothing, save, or save and stop."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from klarm.config import Config, load
from klarm.journal import run_folder
from klarm.monitor import Monitor
from klarm.settings import ConfigError, did_you_mean
from klarm.types import Incident

OnCritical = Literal["none", "checkpoint", "stop"]


class Reaction:
    """Decides, once an incident, whether to save the training's state and whether to end it."""

    def __init__(
        self, on_critical: OnCritical, checkpoint_dir: str | os.PathLike[str] | None = None
    ) -> None:
        if on_critical not in get_args(OnCritical):
            near = did_you_mean(on_critical, get_args(OnCritical))
            raise ConfigError(
                f'on_critical is {on_critical!r}: it must be "none", "checkpoint" (save the '
                f'training\'s state) or "stop" (save it, then end the training){near}'
            )
        self._on_critical = on_critical
        self._directory = Path(checkpoint_dir) if checkpoint_dir is not None else None
        self._known: set[tuple[str, int]] = set()  # signal and first step of incidents acted upon

    @property
    def acts(self) -> bool:
        """Whether anything is to be done at all."""
        return self._on_critical != "none"

    @property
    def stops(self) -> bool:
        """Whether to end the training is part of it."""
        return self._on_critical == "stop"

    def due(self, monitor: Monitor) -> list[Incident]:
        """Return the incidents to act upon now; each is told of once."""
        if not self.acts:
            return []
        new = [i for i in monitor.critical if (i.signal, i.started) not in self._known]
        self._known.update((i.signal, i.started) for i in new)
        return new

    def pass_over(self, monitor: Monitor) -> None:
        """Act upon nothing that is critical already: whoever takes up a run has been told."""
        self._known = {(i.signal, i.started) for i in monitor.critical}

    def checkpoint_path(self, monitor: Monitor, settings: Config, step: int) -> Path:
        """Return where to save the state of a step: beside the journal, if nowhere else."""
        beside_journal = run_folder(settings.dir, monitor.run) / "checkpoints"
        return (self._directory or beside_journal).absolute() / f"critical-{step}"


def checked_settings(
    run: str | None,
    config: str | os.PathLike[str] | None,
    overrides: Mapping[str, object],
    asked_by: str,
    framework: str = "",
) -> Config:
    """Return the settings in force, or raise ConfigError while nothing has started yet."""
    named = overrides if run is None else {**overrides, "run": run}
    settings = load(config, named, overrides_from=asked_by)
    if settings.run:
        run_folder(settings.dir, settings.run)  # refuses a name that cannot be a folder's
    return replace(settings, framework=settings.framework or framework)
