"""W&B: watches what is logged to it, and reports incidents to it as alerts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from klarm.integrations import notice
from klarm.integrations.base import ConfigSource, checked_settings, is_replaced, start_run
from klarm.integrations.tap import tap
from klarm.integrations.tracker_alerts import Tracker, ask_for_alerts, attach
from klarm.metrics import to_number
from klarm.monitor import Monitor
from klarm.types import Event

_LEVELS = {"warning": "WARN", "critical": "ERROR"}


def watch(
    run: str | None = None,
    *,
    alert: bool = False,
    rank: int | None = None,
    config: ConfigSource = None,
    **settings: object,
) -> Monitor:
    """Watch all further calls of `wandb.log` and `run.log`. Call it before or after `wandb.init`.

    Arguments are those of `klarm.init`, whose monitor is returned. Only one W&B run is watched, the
    first that logs; call it again for the next. With `alert`, incidents that open or escalate are
    sent to W&B as alerts.
    """
    import wandb
    from wandb.sdk.wandb_run import Run

    checked = checked_settings("", run, config, settings, "watch()")
    mirror = _Mirror(start_run(checked, rank=rank))
    ask_for_alerts("wandb", alert)
    if alert:
        attach(mirror.monitor, TRACKER._replace(current_run=lambda: mirror.run))
    tap(Run, "log", mirror.logged)
    tap(Run, "define_metric", mirror.defined)
    if os.environ.get("WANDB_MODE") == "disabled" or (wandb.run and wandb.run.disabled):
        mirror.monitor.say("W&B is disabled: its log does nothing, so klarm sees nothing")
    if wandb.run is not None:
        mirror.take(wandb.run)
        # `wandb.init` has set these to methods from before the tap.
        wandb.log = wandb.run.log
        wandb.define_metric = wandb.run.define_metric
    return mirror.monitor


class _Mirror:
    """Follows the steps of one W&B run as W&B does.

    Steps are counted here, because asking W&B for its step waits for another process.
    """

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.run: Any = None  # the one that is watched, once it has logged
        self._step = 0
        self._step_metric = ""  # what everything is plotted over, if not W&B's own step
        self._at: float | None = None  # its latest value

    def logged(
        self,
        run: Any,
        data: Mapping[str, object],
        step: int | None = None,
        commit: bool | None = None,
        *_: object,
        **__: object,
    ) -> None:
        if is_replaced(self.monitor, "W&B") or not self._is_watched(run):
            return
        if step is not None:
            if step < self._step:
                return  # W&B warns and drops it
            self._step = step
        at = to_number(data.get(self._step_metric))
        self._at = self._at if at is None else at
        self.monitor.log(data, self._at if self._step_metric else self._step)
        if commit or (commit is None and step is None):
            self._step += 1

    def defined(
        self, run: Any, name: str, step_metric: Any = None, *_: object, **__: object
    ) -> None:
        """Note that everything is plotted over a metric that is part of each row."""
        if name == "*" and step_metric is not None and self._is_watched(run):
            self._step_metric = getattr(step_metric, "name", step_metric)

    def take(self, run: Any) -> None:
        """Watch this run, which may have logged before."""
        self.run = run
        self._step = getattr(run, "_local_step", run.starting_step)

    def _is_watched(self, run: Any) -> bool:
        if self.run is None:
            self._step = run.starting_step
        elif run.id != self.run.id:
            self.monitor.say(
                f"W&B run {run.id} is not watched, {self.run.id} is: "
                "call klarm.integrations.wandb.watch again before the next run",
                about="another W&B run",
            )
            return False
        self.run = run
        return True


def _current_run() -> Any:
    import wandb

    return wandb.run


def _send(run: Any, event: Event) -> None:
    run.alert(notice.title(event), notice.text(event), _LEVELS[event.severity])


TRACKER = Tracker("W&B", _current_run, _send)
