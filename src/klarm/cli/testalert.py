"""`klarm test-alert`: whether a message gets through."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection
from pathlib import Path

import click

from klarm.channels.base import Channel, NotDelivered
from klarm.channels.message import Message
from klarm.cli.options import config_option
from klarm.config import load
from klarm.delivery import outgoing
from klarm.settings import did_you_mean
from klarm.terminal import echo


@click.command("test-alert")
@click.argument("channel", required=False)
@config_option
def testalert(channel: str | None, config_file: Path | None) -> None:
    """Send a marked test message to CHANNEL, or to all, and say what came of it.

    Exit code 1 if it did not get through everywhere.
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
        hint = did_you_mean(channel, names) or f"; there are {', '.join(names)}"
        raise click.UsageError(f"there is no channel {channel}{hint}")


def _message() -> Message:
    return Message(
        run="test",
        incident=0,
        event="opened",
        signal="kl",
        severity="warning",
        step=0,
        title="klarm test: this is how an alert arrives",
        body="Sent by `klarm test-alert`. No run is in trouble, and there is nothing to do.",
        test=True,
        message_id=os.urandom(16).hex(),
        time=time.time(),
    )
