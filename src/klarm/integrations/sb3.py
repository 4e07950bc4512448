"""Stable-Baselines3: a callback that watches every update, and can save the model or stop."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from klarm.boundary import never_raises
from klarm.integrations.base import ConfigSource, checked_settings, start_run
from klarm.integrations.reaction import OnCritical, Reaction
from klarm.integrations.tap import tap
from klarm.monitor import Monitor
from klarm.notices import Notices, ReportsFailures

_watching: weakref.WeakSet[KlarmCallback] = weakref.WeakSet()


class KlarmCallback(ReportsFailures, BaseCallback):
    """Watches a model while it learns: `model.learn(100_000, callback=KlarmCallback("my-run"))`.

    Every update is one row, and its step is the number of timesteps so far. Every save of the model
    is noticed, also by SB3's CheckpointCallback. A failure of the callback is reported once, and
    training continues; invalid settings raise an error when the callback is created.
    """

    def __init__(
        self,
        run: str | None = None,
        *,
        on_critical: OnCritical = "none",
        checkpoint_dir: str | os.PathLike[str] | None = None,
        config: ConfigSource = None,
        **overrides: object,
    ) -> None:
        """Check the settings, which are those of `klarm.init`, and `on_critical`."""
        super().__init__()
        self.monitor: Monitor | None = None
        self._settings = checked_settings("sb3", run, config, overrides, "KlarmCallback()")
        self._reaction = Reaction(on_critical, checkpoint_dir)
        self.notices = Notices(stderr=self._settings.console)
        self._watched: Any = None  # the model, as long as it is the same one
        self._stopping = False
        self._updates = 0  # the model's count of them at the last row
        self._last_episode: Any = None
        self._offset = 0  # timesteps before SB3 restarted its count
        self._step = 0
        self._reacts = False  # while it saves the model itself

    @never_raises(lambda: None)
    def _on_training_start(self) -> None:
        self._stopping = False
        # SB3 does not notify callbacks of saves. `save` is tapped on the class, because a method
        # replaced on the model itself would be pickled with the model.
        tap(BaseAlgorithm, "save", _on_save)
        _watching.add(self)
        self._updates = self.model._n_updates
        if self._watched is not self.model:
            self._watched, self._offset, self._step = self.model, 0, 0
            self.monitor = start_run(self._settings)
        elif self.model.num_timesteps + self._offset < self._step:
            # `learn` was called again and counts from 0, but the model was not reset.
            self._offset = self._step
        if self.monitor is not None:
            self.monitor.training_began("stable_baselines3")

    # SB3 updates the model between two rollouts, and once more after the last.
    @never_raises(lambda: None)
    def _on_rollout_start(self) -> None:
        self._watch()

    @never_raises(lambda: None)
    def _on_training_end(self) -> None:
        self._watch()
        if self.monitor is not None:
            self.monitor.training_ended()

    @never_raises(lambda: True)
    def _on_step(self) -> bool:
        return not self._stopping

    def _watch(self) -> None:
        """Log the last update, unless there was none since the last check."""
        if self.monitor is None or self.model._n_updates == self._updates:
            return
        self._updates = self.model._n_updates
        self._step = self._offset + self.model.num_timesteps
        patience = self._settings.incident_rules().resolve_after
        self._reaction.take_up(self.monitor, self._step, patience)
        self.monitor.log({**self.logger.name_to_value, **self._reward()}, self._step)
        if due := self._reaction.due(self.monitor):
            self._stopping = self._reaction.stops
            path = self._reaction.checkpoint_path(self.monitor, self._settings, self._step)
            path = path.with_suffix(".zip")
            self._reaction.act(self.monitor, due, self._step, path, self._save)

    def _save(self, path: Path) -> None:
        """Save the model; the reaction records this checkpoint, so `_on_save` ignores it."""
        self._reacts = True
        try:
            self.model.save(path)
        finally:
            self._reacts = False

    def _on_save(self, model: BaseAlgorithm, path: Path) -> None:
        if self._watched is model and self.monitor is not None and not self._reacts:
            self.monitor.checkpoint(self._offset + model.num_timesteps, path)

    def _reward(self) -> dict[str, float]:
        """Return the mean return as SB3 shows it, if episodes ended since the last row.

        SB3 adds it to its log and clears the log between a rollout and the update.
        """
        episodes = self.model.ep_info_buffer
        if not episodes or episodes[-1] is self._last_episode:
            return {}
        self._last_episode = episodes[-1]
        return {"reward": sum(float(episode["r"]) for episode in episodes) / len(episodes)}


def _on_save(model: BaseAlgorithm, path: object, *_: object, **__: object) -> None:
    """Notify the callbacks that a model was saved, if it was saved to a file."""
    if isinstance(path, str | os.PathLike):
        file = Path(path).absolute()
        if not file.suffix:
            file = file.with_name(f"{file.name}.zip")  # as SB3 does
        for callback in list(_watching):
            callback._on_save(model, file)
