"""`klarm test-alert`: tests whether messages are delivered."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection
from pathlib import Path

import click
import msgspec

from klarm.channels.base import Channel, NotDelivered
from klarm.channels.message import Context, Message, message_of
from klarm.cli.options import config_option
from klarm.config import load
from klarm.delivery import outgoing
from klarm.detectors import CATALOGUE
from klarm.monitor import Monitor
from klarm.settings import did_you_mean
from klarm.terminal import echo
from klarm.types import Event

_RAISED = 60  # the step at which the learning rate of the example is raised
_NO_ALARM = "Sent by `klarm test-alert`: no run is in trouble, and there is nothing to do."


@click.command("test-alert")
@click.argument("channel", required=False)
@config_option
def testalert(channel: str | None, config_file: Path | None) -> None:
    """Send an example message, marked as a test, to CHANNEL or to all channels.

    The exit code is 1 if it was not delivered everywhere.
    """
    settings = load(config_file, lenient=True)
    if channel is not None and settings.channel_settings:
        _check_name(channel, settings.channel_settings)
        settings = settings.only(channel)
    off = [name for name, values in settings.channel_settings.items() if not values["enabled"]]
    known: list[Channel] = [route.channel for route in outgoing.routes_of(settings)]
    known += outgoing.heartbeats_of(settings)
    channels = {one.name: one for one in known}
    if not channels:
        raise click.UsageError(
            f"{', '.join(off)} {'is' if len(off) == 1 else 'are'} switched off (enabled: false)"
            if off
            else "no channel is configured"
        )
    if channel is not None:
        _check_name(channel, channels)
    failed = False
    for name in channels if channel is None else [channel]:
        try:
            receipt = channels[name].send(_message(), {})
        except NotDelivered as failure:
            failed = True
            echo(f"{name}: not delivered: {failure.reason}")
        else:
            answer = ", ".join(f"{key} {value}" for key, value in receipt.items())
            echo(f"{name}: delivered{f' ({answer})' if answer else ''}")
    sys.exit(failed)


def _check_name(channel: str, names: Collection[str]) -> None:
    if channel not in names:
        hint = did_you_mean(channel, names) or f"; choose from {', '.join(names)}"
        raise click.UsageError(f"there is no channel {channel}{hint}")


def _message() -> Message:
    """Return the message of an example incident, marked as a test."""
    event, curve = _example()
    context = Context(run="example", now=time.time(), values=curve)
    example = message_of(msgspec.structs.replace(event, incident=1), context)
    return msgspec.structs.replace(
        example,
        title=f"Test: {example.title}",
        summary=f"{_NO_ALARM} A real one would say: {example.summary}",
        body=f"{_NO_ALARM} A real message looks like this:\n{example.body}",
        test=True,
        message_id=os.urandom(16).hex(),
    )


def _example() -> tuple[Event, list[tuple[int, float]]]:
    """Let a monitor with the default settings watch a KL explode, so that its words are real.

    Return the event that opens the incident, and KL up to its step.
    """
    events: list[Event] = []
    monitor = Monitor("example", [kind() for kind in CATALOGUE])
    monitor.on_event.append(events.append)
    curve: list[tuple[int, float]] = []
    while not any(event.signal == "kl" for event in events):
        step = len(curve)
        later = step - _RAISED
        kl = 0.02 + 0.002 * (step % 3) if later < 0 else 0.022 * 1.4**later
        curve.append((step, kl))
        rate = 1e-6 if later < 0 else 1e-5
        monitor.log({"kl": kl, "reward": 0.5, "learning_rate": rate}, step)
    return next(event for event in events if event.signal == "kl"), curve
