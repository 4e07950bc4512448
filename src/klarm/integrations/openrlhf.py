"""OpenRLHF: listens to its W&B and TensorBoard loggers, in their process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from klarm.boundary import never_raises
from klarm.integrations.tap import tap
from klarm.notices import Notices

if TYPE_CHECKING:
    from klarm.integrations.base import ConfigSource
    from klarm.monitor import Monitor

_MODULE = "openrlhf.utils.logging_utils"
_FRAMEWORK = "openrlhf"  # what its keys mean
_LOGGERS = ("WandbLogger", "TensorboardLogger")


def watch(
    run: str | None = None,
    *,
    rank: int | None = None,
    config: ConfigSource = None,
    **settings: object,
) -> None:
    """Watch the run whose loggers are created in this process.

    This costs nothing in a process without loggers, so any process of OpenRLHF may call it. The
    arguments are those of `klarm.init`. By default the run has the name of OpenRLHF's run. An
    invalid configuration raises ConfigError when a logger is created, before training.

    Other hooks return their monitor. This one has none yet: the monitor starts with the first
    logger, which knows the name of the run. Starting it here would record a run in every worker.
    """
    watched = _Watched(run, rank, config, settings)
    if _MODULE in sys.modules:
        watched.listen(sys.modules[_MODULE])
    else:
        # Importing it here would load torch into every worker before the worker is set up.
        sys.meta_path.insert(0, _WhenImported(_MODULE, watched.listen))


class _Watched:
    """The run of a process, which may have several loggers."""

    def __init__(
        self,
        run: str | None,
        rank: int | None,
        config: ConfigSource,
        settings: Mapping[str, object],
    ) -> None:
        self._run = run
        self._rank = rank
        self._config = config
        self._settings = settings
        self._monitor: Monitor | None = None
        self._last_step = 0
        self._last: object = None

    @never_raises(lambda: None)
    def listen(self, module: ModuleType) -> None:
        for name in _LOGGERS:
            logger = getattr(module, name)
            tap(logger, "__init__", self._made)
            tap(logger, "log_train", self._train)
            tap(logger, "log_eval", self._eval)
            tap(logger, "close", self._close)

    def _made(self, _logger: object, args: Any) -> None:
        self._started(args.logger.wandb.run_name)

    def _train(self, _logger: object, global_step: int, logs_dict: Mapping[str, object]) -> None:
        if logs_dict is self._last:  # both loggers are given the same dict
            return
        self._last = logs_dict
        self._last_step = global_step
        self._started().log(logs_dict, global_step)

    def _eval(self, _logger: object, global_step: int, logs_dict: Mapping[str, object]) -> None:
        if logs_dict is self._last:
            return
        self._last = logs_dict
        # An asynchronous trainer logs evaluations some steps late, which is not a rollback.
        step = max(global_step, self._last_step)
        self._started().log({f"eval/{key}": value for key, value in logs_dict.items()}, step)

    def _close(self, _logger: object) -> None:
        if self._monitor is not None:
            self._monitor.finish()

    def _failed(self, _place: str, message: str) -> None:
        Notices().warn(f"OpenRLHF is not watched: {message}")

    def _started(self, name: str = "") -> Monitor:
        if self._monitor is None:
            from klarm.integrations.base import checked_settings, start_run

            settings = checked_settings(
                _FRAMEWORK, self._run, self._config, self._settings, "watch()"
            )
            self._monitor = start_run(settings, name, rank=self._rank)
        return self._monitor


class _WhenImported(MetaPathFinder):
    """Calls a function with a module as soon as the module has been imported."""

    def __init__(self, module: str, then: Callable[[ModuleType], object]) -> None:
        self._module = module
        self._then = then

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
