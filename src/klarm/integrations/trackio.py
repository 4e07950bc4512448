"""Trackio: watches what is logged to it, and reports incidents to it as alerts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klarm.integrations import notice
from klarm.integrations.base import ConfigSource, checked_settings, is_replaced, start_run
from klarm.integrations.tap import tap
from klarm.integrations.tracker_alerts import Tracker, ask_for_alerts, attach
from klarm.metrics import TRAINER_STEP, to_number
from klarm.monitor import Monitor
from klarm.types import Event


def watch(
    run: str | None = None,
    *,
    alert: bool = False,
    rank: int | None = None,
    config: ConfigSource = None,
    **settings: object,
) -> Monitor:
    """Watch all further calls of `trackio.log`. Call it before or after `trackio.init`.

    Arguments are those of `klarm.init`, whose monitor is returned. Only one Trackio run is watched,
    the first that logs; call it again for the next. With `alert`, incidents that open or escalate
    are sent to Trackio as alerts.
    """
    from trackio.run import Run

    checked = checked_settings("", run, config, settings, "watch()")
    mirror = _Mirror(start_run(checked, rank=rank))
    ask_for_alerts("trackio", alert)
    if alert:
        attach(mirror.monitor, TRACKER._replace(current_run=lambda: mirror.run))
    tap(Run, "log", mirror.logged)
    return mirror.monitor


class _Mirror:
    """Follows the steps of one Trackio run.

    Without a step, Trackio counts rows. If the trainer logs its own step as a metric, that one is
    used: Hugging Face trainers log evaluations as separate rows, and continue an older run of the
    same name, so Trackio's count is ahead of their steps.
    """

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.run: Any = None  # the one that is watched, once it has logged
        self._trainer_step: float | None = None  # the latest, if the trainer logs any

    def logged(self, run: Any, metrics: Mapping[str, object], step: object = None) -> None:
        if is_replaced(self.monitor, "Trackio"):
            return
        if self.run is not None and _identity(run) != _identity(self.run):
            self.monitor.say(
                f"Trackio run {run.name} is not watched, an earlier run is: "
                "call klarm.integrations.trackio.watch again before the next run",
                about="another Trackio run",
            )
            return
        self.run = run
        at = to_number(metrics.get(TRAINER_STEP))
        if at is not None:
            self._trainer_step = at
        elif step is None:
            at = self._trainer_step
        if at is not None:
            step = at
        elif step is None and hasattr(run, "_next_step"):
            step = run._next_step - 1  # Trackio has already counted this row
        self.monitor.log(metrics, step)


def _identity(run: Any) -> object:
    """Return the id of a run, or its name in older versions. Names may be reused."""
    return getattr(run, "id", None) or run.name


def _current_run() -> Any:
    from trackio import context_vars

    return context_vars.current_run.get()


def _send(run: Any, event: Event) -> None:
    from trackio import AlertLevel

    level = AlertLevel.ERROR if event.severity == "critical" else AlertLevel.WARN
    # Without a step, Trackio assigns the alert to the row just logged.
    run.alert(notice.title(event), notice.text(event), level)


TRACKER = Tracker("Trackio", _current_run, _send)
