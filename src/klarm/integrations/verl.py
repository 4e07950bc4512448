"""verl: a tracking backend named klarm, as in `trainer.logger=[console,klarm]`.

verl finds this module through the entry-point group verl.plugins and imports it, which adds the
backend.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Mapping
from typing import Any

from klarm.boundary import never_raises
from klarm.integrations.tap import tap
from klarm.notices import Notices

BACKEND = "klarm"


class _Plugin:
    @never_raises(lambda: None)
    def register(self) -> None:
        from verl.utils.tracking import Tracking

        if BACKEND not in Tracking.supported_backend:
            Tracking.supported_backend = [*Tracking.supported_backend, BACKEND]
        tap(Tracking, "__init__", _start)
        if hasattr(Tracking, "finish"):  # if verl does not call it, the run ends with the process
            tap(Tracking, "finish", _finish)

    def _failed(self, _place: str, message: str) -> None:
        Notices().warn(f"verl has no backend {BACKEND!r}: {message}")


class _Backend:
    """A backend for verl. The configuration of verl is not recorded: it may contain secrets."""

    def __init__(self, project: str, experiment: str) -> None:
        # Imported here: every worker of verl imports this module, but only one process watches.
        from klarm.integrations.base import checked_settings, start_run

        settings = checked_settings("verl", None, None, {}, "trainer.logger")
        self.monitor = start_run(settings, f"{project}-{experiment}")

    def log(self, data: Mapping[str, object], step: int) -> None:
        self.monitor.log(data, step)


def _start(tracking: Any, *args: Any, **kwargs: Any) -> None:
    given = inspect.signature(type(tracking).__init__).bind(tracking, *args, **kwargs).arguments
    wanted = given.get("default_backend", ())
    if BACKEND in ([wanted] if isinstance(wanted, str) else wanted):
        names = given["project_name"], given["experiment_name"]
        tracking.logger[BACKEND] = _Backend(*names)


def _finish(tracking: Any, *_: Any, **__: Any) -> None:
    backend = tracking.logger.get(BACKEND)
    if backend is not None:
        backend.monitor.finish()


if importlib.util.find_spec("verl") is not None:
    _Plugin().register()
