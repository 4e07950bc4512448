"""Trackio: watches what is logged to it, and reports incidents to it as alerts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klarm.integrations import notice
from klarm.integrations.base import ConfigSource, checked_settings, start_run
from klarm.integrations.tap import tap
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
    """Watch all further calls of `trackio.log`. Call it before or after `trackio.init`.

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
    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self._run: Any = None

    def logged(self, run: Any, metrics: Mapping[str, object], step: object = None) -> None:
        if self._run is not None and run.name != self._run.name:
            self.monitor.say(
                f"Trackio run {run.name} is not watched, {self._run.name} is: "
                "call klarm.integrations.trackio.watch again before the next run",
                about="another Trackio run",
            )
            return
        self._run = run
        if step is None and hasattr(run, "_next_step"):
            step = run._next_step - 1  # it has counted on by now
        self.monitor.log(metrics, step)

    def alert(self, event: Event) -> None:
        from trackio import AlertLevel

        if self._run is not None and notice.worth_an_alert(event):
            level = AlertLevel.ERROR if event.severity == "critical" else AlertLevel.WARN
            self._run.alert(notice.title(event), notice.text(event), level, event.step)
