"""What a hook does when an incident becomes critical: nothing, save, or save and stop."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

from klarm.config import Config
from klarm.incidents import subject_of
from klarm.journal import run_folder
from klarm.monitor import Monitor
from klarm.settings import ConfigError, did_you_mean
from klarm.types import Incident

OnCritical = Literal["none", "checkpoint", "stop"]


class Reaction:
    """Decides, once per incident, whether to save the state of training and whether to stop."""

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
        self._known: set[str] = set()  # ids of handled incidents, while they are critical
        self._passed_over: dict[str, int] = {}  # the number of alerts of each
        self._acts_again_after = 0  # rows logged in this process

    @property
    def acts(self) -> bool:
        """Whether critical incidents have any effect."""
        return self._on_critical != "none"

    @property
    def stops(self) -> bool:
        """Whether critical incidents stop training."""
        return self._on_critical == "stop"

    def due(self, monitor: Monitor) -> list[Incident]:
        """Return the incidents to handle now: each once, and again if it recovered and reopened.

        Call it after every step.
        """
        if not self.acts:
            return []
        critical = monitor.critical
        still = {incident.id for incident in critical}
        self._known &= still
        self._passed_over = {id_: n for id_, n in self._passed_over.items() if id_ in still}
        new = [incident for incident in critical if self._is_new(incident, monitor.steps_logged)]
        self._known.update(incident.id for incident in new)
        return new

    def take_up(self, monitor: Monitor, step: int, patience: int) -> None:
        """Resume the run of an earlier process at a step, the first of this process."""
        if monitor.taken_up:
            monitor.resume(step)
            self.pass_over(monitor, monitor, patience)

    def pass_over(self, monitor: Monitor, voice: Monitor | None, patience: int) -> None:
        """Ignore incidents that are already critical: the person who resumed the run knows of them.

        An incident that still has alerts after `patience` rows is handled after all.
        """
        self._known.clear()
        self._passed_over = {incident.id: incident.alerts for incident in monitor.critical}
        self._acts_again_after = monitor.steps_logged + patience
        if voice is None or not self.acts:
            return
        for incident in monitor.critical:
            voice.say(
                f"incident {incident.number} on {subject_of(incident)} (critical, began at step "
                f"{incident.started}) is still open and is not acted upon again for {patience} "
                f"rows{_way_back(voice, incident)}"
            )

    def act(
        self,
        monitor: Monitor,
        incidents: Sequence[Incident],
        step: int,
        path: Path,
        save: Callable[[Path], object],
    ) -> None:
        """Save the state to a path, and report what is done even if saving fails."""
        saved = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            save(path)
            saved = True
            monitor.checkpoint(step, path)
        finally:
            self.say(monitor, incidents, step, path if saved else None)

    def say(
        self, monitor: Monitor, incidents: Sequence[Incident], step: int, saved: Path | None
    ) -> None:
        """Report why training stops or saves its state, where, and which checkpoint is good."""
        named = " and ".join(subject_of(incident) for incident in incidents)
        verb = "is" if len(incidents) == 1 else "are"
        doing = "stops" if self.stops else "goes on"
        kept = "without a checkpoint" if saved is None else f"with a checkpoint at {saved}"
        first = min(incidents, key=lambda incident: incident.started)
        monitor.say(
            f"{named} {verb} critical: training {doing}, {kept}, at step {step}"
            f"{_way_back(monitor, first)}"
        )

    def checkpoint_path(self, monitor: Monitor, settings: Config, step: int) -> Path:
        """Return the path for the state of a step: by default beside the journal."""
        beside_journal = run_folder(settings.dir, monitor.run) / "checkpoints"
        return (self._directory or beside_journal).absolute() / f"critical-{step}"

    def _is_new(self, incident: Incident, steps_logged: int) -> bool:
        if incident.id in self._known:
            return False
        if incident.id in self._passed_over and steps_logged <= self._acts_again_after:
            self._passed_over[incident.id] = incident.alerts
        return incident.alerts > self._passed_over.get(incident.id, 0)


def _way_back(monitor: Monitor, incident: Incident) -> str:
    good = monitor.last_good_checkpoint(incident)
    return "" if good is None else f"; last good checkpoint: {good[1]}"
