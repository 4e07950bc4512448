"""`klarm test-alert`: whether a message gets through."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from klarm.channels.base import NotDelivered
from klarm.channels.message import Message
from klarm.cli.options import config_option
from klarm.config import load
from klarm.delivery import outgoing
from klarm.settings import did_you_mean


@click.command("test-alert")
@click.argument("channel", required=False)
@config_option
def testalert(channel: str | None, config_file: Path | None) -> None:
    """Send a marked test message to CHANNEL, or to all, and say what came of it.

    Exit code 1 if it did not get through everywhere.
    """
    channels = {
        route.channel.name: route.channel for route in outgoing.routes_of(load(config_file))
    }
    if not channels:
        raise click.UsageError("no channel is configured")
    if channel is not None and channel not in channels:
        hint = did_you_mean(channel, channels) or f"; there are {', '.join(channels)}"
        raise click.UsageError(f"there is no channel {channel}{hint}")
    failed = False
    for name in channels if channel is None else [channel]:
        try:
            receipt = channels[name].send(_message(), {})
        except NotDelivered as failure:
            failed = True
            click.echo(f"{name}: not delivered: {failure.reason}")
        else:
            answer = ", ".join(f"{key} {value}" for key, value in receipt.items())
            click.echo(f"{name}: delivered{f' ({answer})' if answer else ''}")
    sys.exit(failed)


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
        time=time.time(),
    )
