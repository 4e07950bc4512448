"""What goes out of a run: its configuration's channels, put to its events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from klarm.config import Config
from klarm.message import Message
from klarm.monitor import Monitor
from klarm.routes import Context, Route
from klarm.types import Event


def deliver_events(
    monitor: Monitor,
    folder: Path | None,
    settings: Config,
    say: Callable[[str], None],
    *,
    resumed: bool,
) -> None:
    """Have a monitor's events delivered, where the configuration names channels for them."""
    if settings.deliver != "here":
        return
    routes = routes_of(settings)
    if routes:
        from klarm.delivery import Delivery  # most runs have no channel

        context = Context(monitor.run, folder)
        delivery = Delivery(routes, write_message, context, say, behind=resumed)
        if resumed:
            delivery.start()
        monitor.on_event.append(delivery)
        monitor.on_finish.append(delivery.finish)


# SEAM: the next two stand in for `Config.channels()` and `message_of`, until those are here.


def routes_of(settings: Config) -> Sequence[Route]:
    """Return the channels of a configuration."""
    channels = getattr(settings, "channels", None)
    return cast("Sequence[Route]", channels()) if channels is not None else []


def write_message(event: Event, context: Context) -> Message:
    """Return what an event has to say."""
    return Message(
        run=context.run,
        incident=event.incident,
        event=event.event,
        signal=event.signal,
        severity=event.severity,
        step=event.step,
        title=f"{context.run}: {event.severity} {event.signal} {event.event} at step {event.step}",
        body=f"{event.message}\n{event.reason}\n{event.recommendation}",
    )
