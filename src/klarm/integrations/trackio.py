"""Trackio: what is logged there is watched here, and incidents show up there as alerts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klarm.integrations import notice
from klarm.integrations.base import ConfigSource, checked_settings, start_run
from klarm.integrations.tap import tap
from klarm.metrics import TRAINER_STEP, to_number
from klarm.monitor import Monitor
from klarm.types import Event


def watch(
    run: str | None = None,
    config: ConfigSource = None,
    *,
    alert: bool = False,
    rank: int | None = None,
    **settings: object,
) -> Monitor:
    """Watch what `trackio.log` gets from now on, before or after `trackio.init`.

    Arguments are those of `klarm.init`, whose monitor is returned. One Trackio run is watched, the
    first that logs; call it again for the next. With `alert` an incident that opens or escalates
    is an alert in Trackio, which queues it for a thread of its own as it does with metrics.
    """
    from trackio.run import Run

    checked = checked_settings("", run, config, settings, "watch()")
    mirror = _Mirror(start_run(checked, rank=rank))
    if alert:
        mirror.monitor.on_event.append(mirror.alert)
    tap(Run, "log", mirror.logged)
    return mirror.monitor


class _Mirror:
    """Follows the steps of one Trackio run.

    Trackio counts rows where no step is given. A trainer that logs its own step along is followed
    by that one: Hugging Face trainers log evaluations as rows of their own, and continue an older
    run of the same name, so Trackio's count runs ahead of them.
    """

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self._run: Any = None
        self._trainer_step: float | None = None  # the latest, if the trainer logs any

    def logged(self, run: Any, metrics: Mapping[str, object], step: object = None) -> None:
        if self._run is not None and _identity(run) != _identity(self._run):
            self.monitor.say(
                f"Trackio run {run.name} is not watched, an earlier run is: "
                "call klarm.integrations.trackio.watch again before the next run",
                about="another Trackio run",
            )
            return
        self._run = run
        at = to_number(metrics.get(TRAINER_STEP))
        if at is not None:
            self._trainer_step = at
        elif step is None:
            at = self._trainer_step
        if at is not None:
            step = at
        elif step is None and hasattr(run, "_next_step"):
            step = run._next_step - 1  # it has counted on by now
        self.monitor.log(metrics, step)

    def alert(self, event: Event) -> None:
        from trackio import AlertLevel

        if self._run is not None and notice.worth_an_alert(event):
            level = AlertLevel.ERROR if event.severity == "critical" else AlertLevel.WARN
            # Without a step it belongs to the row just logged, on whatever axis Trackio has.
            self._run.alert(notice.title(event), notice.text(event), level)


def _identity(run: Any) -> object:
    """Return what tells runs apart: names are used again. Older versions have nothing else."""
    return getattr(run, "id", None) or run.name
