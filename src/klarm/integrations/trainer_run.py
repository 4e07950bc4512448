"""The klarm run of a Hugging Face trainer: its name, and where it saves.

In a hyperparameter search, one trainer trains many times with one output folder, and each trial is
a separate run.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from klarm.config import Config
from klarm.integrations.base import start_run
from klarm.integrations.run_name import run_of_folder, unused_run
from klarm.journal import folder_name
from klarm.monitor import Monitor


class TrainerRuns:
    """Starts the runs of one trainer."""

    def __init__(self) -> None:
        self._directory = Path.cwd()  # Ray Tune changes it in each trial
        self._search = os.urandom(2).hex()
        self._trials = 0

    def start(self, settings: Config, args: Any, state: Any) -> Monitor:
        """Start a new run, or continue the earlier one if training is resumed."""
        if settings.disabled or not state.is_world_process_zero:
            return start_run(settings, _name(args), rank=0 if state.is_world_process_zero else 1)
        output = Path(args.output_dir).absolute()
        if state.is_hyper_param_search:
            settings = self._as_trial(settings, args, state)
        elif settings.run:  # the user has named the run
            return start_run(settings, rank=0)
        else:
            settings = replace(settings, run=run_of_folder(settings.dir, _name(args), output))
        return start_run(settings, rank=0, output_dir=str(output))

    def _as_trial(self, settings: Config, args: Any, state: Any) -> Config:
        """Return the settings with a unique name for the current trial of a search."""
        directory = str(self._directory / Path(settings.dir).expanduser())
        name = f"{settings.run or _name(args)}-{self._trial(state)}"
        run = folder_name(name) if state.global_step else unused_run(directory, name)
        return replace(settings, dir=directory, run=run)

    def _trial(self, state: Any) -> str:
        """Return the part of the name that distinguishes a trial from the others."""
        if state.trial_name:  # set by the user with hp_name
            return str(state.trial_name)
        ray_id = _ray_trial()
        if ray_id:  # stays the same if Ray resumes the trial
            return f"trial-{ray_id}"
        self._trials += 1
        return f"search-{self._search}-trial-{self._trials}"


def checkpoint_path(args: Any, state: Any, step: int) -> Path:
    """Return where the trainer saves a step, or has just saved it."""
    output = Path(args.output_dir).absolute()
    name = f"{PREFIX_CHECKPOINT_DIR}-{step}"
    if state.is_hyper_param_search:  # each trial has a folder, whose name is private
        saved = [path for path in output.glob(f"*/{name}") if path.is_dir()]
        if saved:
            return max(saved, key=lambda path: path.stat().st_mtime)
    return output / name


def _name(args: Any) -> str:
    """Return the trainer's name for the run, or the name of its output folder."""
    name = getattr(args, "run_name", None)
    if not name or name == args.output_dir:  # the latter is transformers 4's default
        name = Path(args.output_dir).absolute().name
    return str(name)


def _ray_trial() -> str:
    tune = sys.modules.get("ray.tune")
    if tune is None:
        return ""
    with warnings.catch_warnings():  # Ray warns if there is no trial
        warnings.simplefilter("ignore")
        return tune.get_context().get_trial_id() or ""
