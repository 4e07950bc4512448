"""Incidents as alerts in the tracker that the trainer logs to: W&B or Trackio."""

from __future__ import annotations

import contextvars
import importlib
import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any, NamedTuple

from klarm.integrations import notice
from klarm.monitor import Monitor
from klarm.text import clean_line
from klarm.types import Event

# Long enough for a tracker that works. Without waiting at all, an alert at the last step would come
# after the end of the tracker's run.
_MAX_WAIT_SECONDS = 0.1
_MAX_PENDING = 100
_MAX_DETAIL = 500  # characters of an error


class Tracker(NamedTuple):
    """What klarm needs of a tracker to send an alert."""

    name: str
    # Returns the run that the trainer logs to now, if any.
    current_run: Callable[[], Any]
    # Sends an event to a run as an alert.
    send: Callable[[Any, Event], object]


# The modules with a `TRACKER`, by its name in `report_to` of Hugging Face trainers.
_MODULES = {"wandb": "klarm.integrations.wandb", "trackio": "klarm.integrations.trackio"}
# Trackers with `watch(alert=True)`: they also get alerts if a callback watches the run.
_asked: set[str] = set()


def ask_for_alerts(tracker: str, alert: bool) -> None:
    """Set whether a tracker gets alerts even if a callback watches the run instead of `watch`."""
    if alert:
        _asked.add(tracker)
    else:
        _asked.discard(tracker)


def send_alerts(monitor: Monitor, report_to: Iterable[str]) -> None:
    """Send the incidents of a run as alerts to the trackers that the trainer reports to."""
    reported = set(report_to)
    for name, module in _MODULES.items():
        if name in reported | _asked:
            attach(monitor, importlib.import_module(module).TRACKER)


def attach(monitor: Monitor, tracker: Tracker) -> None:
    """Send the incidents of a run as alerts to one tracker."""
    sender = _Sender(monitor, tracker)
    monitor.on_event.append(sender.on_event)
    monitor.on_finish.append(sender.finish)


class _Sender:
    """Calls the tracker on its own thread, so that training continues if the tracker hangs."""

    def __init__(self, monitor: Monitor, tracker: Tracker) -> None:
        self._notices = monitor.notices
        self._tracker = tracker
        self._queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last_sent: threading.Event | None = None

    def on_event(self, event: Event) -> None:
        """Queue an alert, on the training thread, if the event opens or escalates an incident."""
        if not notice.worth_an_alert(event):
            return
        run = self._tracker.current_run()
        if run is None:
            return
        if self._queue.qsize() >= _MAX_PENDING:
            self._notices.warn_once(f"{self._tracker.name} hangs: alerts are not sent there")
            return
        hangs = self._last_sent is not None and not self._last_sent.is_set()
        self._last_sent = sent = threading.Event()
        # Trackers find the run of a thread by its context.
        context = contextvars.copy_context()
        self._queue.put(lambda: context.run(self._send, run, event, sent))
        if self._thread is None:
            name = f"klarm-{self._tracker.name}-alerts"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()
        if not hangs:
            sent.wait(_MAX_WAIT_SECONDS)

    def finish(self, timeout: float) -> None:
        """Wait for the queued alerts, and end the thread."""
        if self._last_sent is not None:
            self._last_sent.wait(timeout)
            self._queue.put(None)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            job()

    def _send(self, run: Any, event: Event, sent: threading.Event) -> None:
        try:
            self._tracker.send(run, event)
        except Exception as error:  # noqa: BLE001  # a tracker may fail in any way of its own
            self._notices.warn_once(
                f"{self._tracker.name} took no alert: {type(error).__name__}: "
                f"{clean_line(str(error), _MAX_DETAIL)}",
                about=f"alerts in {self._tracker.name}",
            )
        finally:
            sent.set()
