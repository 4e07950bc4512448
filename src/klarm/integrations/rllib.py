"""RLlib: a callback that watches every training iteration, and can save the algorithm or stop."""

from __future__ import annotations

import functools
import os
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ray.rllib.callbacks.callbacks import RLlibCallback

from klarm.boundary import never_raises
from klarm.config import Config
from klarm.integrations.base import ConfigSource, checked_settings, start_run
from klarm.integrations.reaction import OnCritical, Reaction
from klarm.integrations.tap import tap
from klarm.monitor import Monitor
from klarm.notices import Notices, ReportsFailures

_FRAMEWORK = "rllib"
# Characters of a trial's folder name, which begins with the algorithm, environment and id.
_MAX_TRIAL = 80

# The methods that `save` calls to write a checkpoint, and to let Tune keep it. klarm cannot tap
# `save` itself: in an actor, Ray has already copied it.
_SAVE, _KEEP = "save_to_path", "_report_class_trainable_checkpoint"

_watching: weakref.WeakSet[KlarmCallback] = weakref.WeakSet()


class KlarmCallback(ReportsFailures, RLlibCallback):
    """Watches an algorithm: `config.callbacks(KlarmCallback.with_settings("my-run"))`.

    RLlib creates one in every process of the algorithm; only the one that trains starts a monitor.
    Every iteration is one row, and every checkpoint of the algorithm is noticed. A failure of the
    callback is reported once, and training continues.
    """

    def __init__(
        self,
        settings: Config | None = None,
        *,
        on_critical: OnCritical = "none",
        checkpoint_dir: str | None = None,
        module: str | None = None,
    ) -> None:
        """Take the settings from `with_settings`, by default those of klarm.yaml."""
        super().__init__()
        self.monitor: Monitor | None = None
        self._settings = settings
        self._reaction = Reaction(on_critical, checkpoint_dir)
        self._module = module
        self._algorithm: Callable[[], Any] = lambda: None  # a weak reference, in its process
        self._saved: tuple[int, str] | None = None  # the last checkpoint that was noticed
        self._reacts = False  # while it saves the algorithm itself
        self.notices = Notices(stderr=settings is None or settings.console)

    @classmethod
    def with_settings(
        cls,
        run: str | None = None,
        *,
        on_critical: OnCritical = "none",
        checkpoint_dir: str | os.PathLike[str] | None = None,
        module: str | None = None,
        config: ConfigSource = None,
        **overrides: object,
    ) -> Callable[[], KlarmCallback]:
        """Return the argument for `config.callbacks`; raise ConfigError if a setting is invalid.

        Files and environment are read here, because an algorithm may run in another process with
        another working directory. `module` names the RLModule to watch if there are several.
        """
        settings = checked_settings(
            _FRAMEWORK, run, config, overrides, "KlarmCallback.with_settings()"
        )
        make = functools.partial(
            cls,
            replace(settings, dir=str(Path(settings.dir).absolute())),
            on_critical=on_critical,
            checkpoint_dir=None if checkpoint_dir is None else str(Path(checkpoint_dir).absolute()),
            module=module,
        )
        make()  # raises if on_critical is invalid
        return make

    @never_raises(lambda: None)
    def on_algorithm_init(self, *, algorithm: Any, **_: Any) -> None:
        """Start the monitor, in the process of the algorithm."""
        settings = self._settings
        if settings is None:
            settings = checked_settings(_FRAMEWORK, None, None, {}, "KlarmCallback()")
        self._config = settings
        # Tune runs many trials with the same settings; RLlib itself does not know the trial's id.
        trial = getattr(_storage(algorithm), "trial_dir_name", None)
        names = [settings.run, (trial or "")[:_MAX_TRIAL]]
        chosen = replace(
            settings,
            run="-".join(name for name in names if name),
            framework=settings.framework or _FRAMEWORK,
        )
        self.monitor = start_run(chosen)
        if algorithm is not None:
            self._algorithm = weakref.ref(algorithm)
            _watching.add(self)
            # RLlib notifies callbacks of checkpoints that are loaded, but not of saved ones. The
            # class of this object is tapped, because Ray copies all methods to the actor's class.
            for method, hear in ((_SAVE, _on_save_to_path), (_KEEP, _on_kept)):
                if hasattr(algorithm, method):
                    tap(type(algorithm), method, hear)

    @never_raises(lambda: None)
    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **_: Any) -> None:
        """Log one iteration; save and stop if an incident requires it."""
        if self.monitor is None:
            return
        step = int(result["training_iteration"])
        self._reaction.take_up(self.monitor, step, self._config.incident_rules().resolve_after)
        measures_kl = getattr(algorithm.config, "use_kl_loss", True)
        self.monitor.log(_watchable(result, self._watched_module(result), measures_kl), step)
        if due := self._reaction.due(self.monitor):
            if self._reaction.stops:
                result["done"] = True  # Tune ends the trial; a custom loop must check it
            path = self._reaction.checkpoint_path(self.monitor, self._config, step)
            self._reacts = True  # the reaction records this checkpoint
            try:
                self._reaction.act(
                    self.monitor, due, step, path, lambda to: algorithm.save_to_path(str(to))
                )
            finally:
                self._reacts = False

    def on_saved(self, algorithm: Any, path: str) -> None:
        """Note a checkpoint, if it is one of the algorithm that is watched."""
        if self._algorithm() is not algorithm or self.monitor is None or self._reacts:
            return
        saved = algorithm.training_iteration, path
        if saved != self._saved:  # a class and its subclass may both be tapped
            self._saved = saved
            self.monitor.checkpoint(*saved)

    def _watched_module(self, result: Mapping[str, Any]) -> str:
        learners = result.get("learners", {})
        modules = sorted(name for name in learners if name != "__all_modules__")
        if self._module is None:
            if len(modules) > 1:
                self.notices.say_once(
                    f"of the modules {', '.join(modules)} only {modules[0]} is watched; "
                    'choose with KlarmCallback.with_settings(module="...")'
                )
            return modules[0] if modules else ""
        if modules and self._module not in modules:
            self.notices.say_once(
                f"there is no module {self._module}: nothing of the learner is watched; "
                f"modules of this iteration: {', '.join(modules)}"
            )
        return self._module


def _on_save_to_path(algorithm: Any, path: object = None, *_: Any, **__: Any) -> None:
    """Note a checkpoint that was saved to a path that the user chose, as with `algo.save(...)`."""
    if isinstance(path, str | os.PathLike):
        text = os.fspath(path)
        if "://" not in text:
            text = str(Path(text).absolute())
        # Tune saves to a temporary folder first, and deletes it.
        if not (_storage(algorithm) and Path(text).parent == Path(tempfile.gettempdir())):
            _tell(algorithm, text)


def _on_kept(algorithm: Any, *_: Any, **__: Any) -> None:
    """Note a checkpoint that Tune keeps in the folder of the trial."""
    if storage := _storage(algorithm):
        _tell(algorithm, str(storage.checkpoint_fs_path))


def _storage(algorithm: Any) -> Any:
    """Return Tune's storage of a trial; None without Tune."""
    return getattr(algorithm, "_storage", None)


def _tell(algorithm: Any, path: str) -> None:
    for callback in list(_watching):
        callback.on_saved(algorithm, path)


def _watchable(result: Mapping[str, Any], module: str, measures_kl: bool) -> dict[str, Any]:
    """Return the metrics of an iteration, without timers, counters and the configuration."""
    learner = dict(result.get("learners", {}).get(module, {}))
    if not measures_kl:
        learner.pop("mean_kl_loss", None)  # it is 0 because it is not measured
    if not learner.get("num_module_steps_trained", 1) > 0:
        # APPO and IMPALA train and sample in parallel. An iteration without an update has no values
        # to average, so its means are NaN.
        learner = {}
    runners = result.get("env_runners", {})
    if not runners.get("num_episodes"):  # without episodes, the means are old
        return {"learners": {module: learner}}
    means = {key: runners.get(key) for key in ("episode_return_mean", "episode_len_mean")}
    return {"learners": {module: learner}, "env_runners": means}
