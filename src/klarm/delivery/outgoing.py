"""Outgoing: connects the channels of a configuration to the events of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from klarm.config import Config
from klarm.delivery.outlook import Outlook, command_to_deliver
from klarm.delivery.routes import Route, Run
from klarm.delivery.writer import MessageWriter
from klarm.monitor import Monitor
from klarm.types import RINGING, Event
from klarm.wording import counted

if TYPE_CHECKING:
    from klarm.channels.heartbeat import HeartbeatChannel

_TYPE, _HEARTBEAT = "type", "heartbeat"


def deliver_events(
    monitor: Monitor,
    folder: Path | None,
    settings: Config,
    say: Callable[[str], None],
    *,
    resumed: bool,
) -> list[str]:
    """Deliver the events of a monitor to the channels of a configuration; return their names."""
    if settings.deliver != "here":
        if any(values["enabled"] for values in settings.channel_settings.values()):
            _count_for_others(monitor, folder, say)
        return []
    _start_heartbeats(monitor, settings, say)
    routes = routes_of(settings)
    if routes:
        from klarm.delivery.dispatcher import Delivery  # most runs have no channel

        run = Run(monitor.run, folder.absolute() if folder is not None else None)
        write = writer_of(settings)
        # A channel that rejected messages may have been repaired since, so they are sent again.
        delivery = Delivery(
            routes,
            write,
            run,
            say,
            behind=resumed,
            again="open" if resumed else "none",
            outlook=Outlook(command=command_to_deliver(folder, again=True) if folder else ""),
            commands_watched=True,
        )
        if resumed:
            delivery.start()

        def finish(timeout: float) -> None:
            delivery.finish(timeout)
            left, rejected = delivery.left, delivery.rejected
            names = ", ".join([*left, *(name for name in rejected if name not in left)])
            if names:
                say(f"{names}: some messages were not delivered{_remedy(folder, bool(rejected))}")
            if delivery.held and folder is not None:
                say(
                    f"{', '.join(delivery.held)}: messages are held back by a silence. Once it is "
                    f"over, this sends them: {command_to_deliver(folder)}"
                )

        monitor.on_event.append(delivery)
        monitor.on_finish.append(finish)
    return [route.channel.name for route in routes]


def _count_for_others(monitor: Monitor, folder: Path | None, say: Callable[[str], None]) -> None:
    """Report at the end of a run how many events are left for another process to send."""
    happened = 0

    def count(event: Event) -> None:
        nonlocal happened
        happened += event.event in RINGING

    def finish(_: float) -> None:
        if not happened:
            return
        events = counted(happened, "event")
        if folder is None:
            say(f"{events} cannot be delivered elsewhere: the run is not recorded.")
        else:
            it = "it" if happened == 1 else "them"
            say(f"{events} pending: `{command_to_deliver(folder)}` delivers {it}.")

    monitor.on_event.append(count)
    monitor.on_finish.append(finish)


def _remedy(folder: Path | None, rejected: bool) -> str:
    if folder is None:
        return ", and the run is not recorded: they are lost."
    command = command_to_deliver(folder, again=rejected)
    if rejected:  # the next start only sends those of open incidents
        return f". Once `klarm test-alert` succeeds, this sends them: {command}"
    return f" yet. The next start of the run sends them, or: {command}"


def _start_heartbeats(monitor: Monitor, settings: Config, say: Callable[[str], None]) -> None:
    channels = heartbeats_of(settings)
    if channels:
        from klarm.delivery.heartbeat import Heartbeat  # hardly any run has one

        for channel in channels:
            heartbeat = Heartbeat(channel, lambda: monitor.steps_logged, say)
            heartbeat.start()
            monitor.on_finish.append(heartbeat.stop)


def routes_of(settings: Config) -> Sequence[Route]:
    """Return the channels of a configuration that notify people."""
    return [route for route in settings.channels() if route.channel.type != _HEARTBEAT]


def heartbeats_of(settings: Config) -> Sequence[HeartbeatChannel]:
    """Return the heartbeat channels: they are not notified of incidents, but show progress."""
    if not any(values[_TYPE] == _HEARTBEAT for values in settings.channel_settings.values()):
        return []
    return [
        cast("HeartbeatChannel", route.channel)
        for route in settings.channels()
        if route.channel.type == _HEARTBEAT
    ]


def writer_of(settings: Config) -> MessageWriter:
    """Return a message writer with the GPU cost and the URL of a configuration."""
    return MessageWriter(
        gpus=settings.gpus, gpu_hour_price=settings.gpu_hour_price, url=settings.url
    )
