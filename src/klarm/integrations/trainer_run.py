"""A training of a Hugging Face trainer as a run of klarm: its name, and where it saves.

In a search for hyperparameters one trainer trains many times, with one output folder: each trial is
a run of its own.
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
        self._directory = Path.cwd()  # Ray Tune has each trial work in another one
        self._search = os.urandom(2).hex()
        self._trials = 0

    def start(self, settings: Config, args: Any, state: Any) -> Monitor:
        """Start the run that a training belongs to: its old one, if it is resumed."""
        if settings.disabled or not state.is_world_process_zero:
            return start_run(settings, _name(args), rank=0 if state.is_world_process_zero else 1)
        output = Path(args.output_dir).absolute()
        if state.is_hyper_param_search:
            settings = self._as_trial(settings, args, state)
        elif settings.run:  # then the user says which run it is
            return start_run(settings, rank=0)
        else:
            settings = replace(settings, run=run_of_folder(settings.dir, _name(args), output))
        return start_run(settings, rank=0, output_dir=str(output))

    def _as_trial(self, settings: Config, args: Any, state: Any) -> Config:
        """Return the settings with a name of its own for each trial of a search."""
        directory = str(self._directory / Path(settings.dir).expanduser())
        name = f"{settings.run or _name(args)}-{self._trial(state)}"
        run = folder_name(name) if state.global_step else unused_run(directory, name)
        return replace(settings, dir=directory, run=run)

    def _trial(self, state: Any) -> str:
        """Return what tells a trial from others, after the name that they share."""
        if state.trial_name:  # the user's own, by hp_name
            return str(state.trial_name)
        ray_id = _ray_trial()
        if ray_id:  # the same when Ray takes the trial up again
            return f"trial-{ray_id}"
        self._trials += 1
        return f"search-{self._search}-trial-{self._trials}"


def checkpoint_path(args: Any, state: Any, step: int) -> Path:
    """Return where the trainer saves a step, or has just saved it."""
    output = Path(args.output_dir).absolute()
    name = f"{PREFIX_CHECKPOINT_DIR}-{step}"
    if state.is_hyper_param_search:  # in a folder for each trial, which the trainer keeps to itself
        saved = [path for path in output.glob(f"*/{name}") if path.is_dir()]
        if saved:
            return max(saved, key=lambda path: path.stat().st_mtime)
    return output / name


def _name(args: Any) -> str:
    """Return the name the trainer gives the run, or its folder has."""
    name = getattr(args, "run_name", None)
    if not name or name == args.output_dir:  # the latter is transformers 4's default
        name = Path(args.output_dir).absolute().name
    return str(name)


def _ray_trial() -> str:
    tune = sys.modules.get("ray.tune")
    if tune is None:
        return ""
    with warnings.catch_warnings():  # it warns where there is no trial of Ray's
        warnings.simplefilter("ignore")
        return tune.get_context().get_trial_id() or ""
