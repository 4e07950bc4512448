"""`klarm deliver`: sends the pending notifications of runs."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from klarm.cli.options import config_option
from klarm.cli.runs import find_run, report_damages, runs_in, view_of
from klarm.config import load
from klarm.delivery import Outlook, Route, Run, command_to_deliver, outgoing, prospects_of
from klarm.delivery.dispatcher import Delivery
from klarm.journal import FormatError, record_crash
from klarm.terminal import echo

if TYPE_CHECKING:
    from klarm.runs import RunView


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--run", metavar="NAME", help="Deliver only this run.")
@click.option("--again", is_flag=True, help="Also send messages that channels have rejected.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="How many seconds to try, per run.",
)
@config_option
def deliver(
    directory: Path, run: str | None, again: bool, timeout: float, config_file: Path | None
) -> None:
    """Send the pending notifications of the runs in DIRECTORY.

    DIRECTORY is the folder of one run, or of several. The command sends what a crashed run could
    not send, and what runs on machines without a network have recorded (deliver: elsewhere). It can
    be used at any time, for example in a cron job: a run that delivers its own messages is left
    alone. After a channel has failed for one run, each further run tries it only once, until it
    works. The exit code is 1 if unacknowledged messages are pending or rejected.
    """
    settings = load(
        config_file, {"dir": str(directory)}, overrides_from="klarm deliver", lenient=True
    )
    routes = outgoing.routes_of(settings)
    if not routes:
        raise click.UsageError("no channel is configured: nobody could be notified")
    write = outgoing.writer_of(settings)
    folders = runs_in(directory) if run is None else [find_run(run, settings)]
    if not folders:
        raise click.UsageError(f"there is no run in {directory}")
    # A channel's problem is reported once, not for every run.
    say = functools.cache(lambda message: echo(f"klarm: {message}", err=True))
    only = "" if run is None else f" --run {shlex.quote(run)}"
    outlook = Outlook(
        failing=f"retrying for {timeout:g} s",
        rejected_once="not retrying now",
        rejecting="not retrying now",
        command=command_to_deliver(directory, again=True) + only,
    )
    complete = True
    unreached: set[str] = set()
    up_to_date: list[str] = []
    for folder in folders:
        try:
            view = _writable(folder)
        except (click.ClickException, FormatError) as error:  # the others are still delivered
            say(error.message if isinstance(error, click.ClickException) else str(error))
            complete = False
            continue
        report_damages(view, say)
        with contextlib.suppress(OSError):  # the incidents are still sent
            record_crash(folder, say, view.fold)
        delivery = Delivery(
            routes,
            write,
            Run(view.name, folder),
            say,
            behind=True,
            again="all" if again else "due",
            once=unreached,
            outlook=outlook,
        )
        if not delivery.is_ours:
            echo(f"{view.name}: another process delivers it")
            continue
        delivery.start()
        complete &= delivery.finish(timeout)
        unreached = (unreached - delivery.sent.keys()) | set(delivery.left)
        if said := _in_words(delivery, view, routes):
            echo(f"{view.name}: {said}")
        else:
            up_to_date.append(view.name)
    if len(up_to_date) == 1:
        echo(f"{up_to_date[0]}: nothing pending")
    elif up_to_date:
        echo(f"{len(up_to_date)} runs have nothing pending")
    sys.exit(0 if complete else 1)


def _writable(folder: Path) -> RunView:
    """Return the run in a folder, or raise ClickException if it cannot be delivered."""
    view = view_of(folder)
    if not os.access(folder, os.W_OK):
        raise click.ClickException(
            f"cannot write {folder}: deliveries could not be recorded, so they would be repeated"
        )
    return view


def _in_words(delivery: Delivery, view: RunView, routes: Sequence[Route]) -> str:
    """Report what was sent, rejected and left; nothing if nothing was pending."""
    view.fold.update()  # with what was recorded meanwhile
    outbox, run = view.outbox_saying(lambda _: None), Run(view.name, view.folder)
    left = Counter(
        (channel, verdict)
        for verdicts in prospects_of(run, routes, outbox, time.time()).values()
        for channel, verdict in verdicts.items()
    )
    sent = ", ".join(f"{count} to {channel}" for channel, count in delivery.sent.items())
    parts = [f"sent {sent}"] if sent else []
    parts += [
        f"{name} rejected {count}; --again sends {'it' if count == 1 else 'them'}"
        for name in (route.channel.name for route in routes)
        if (count := outbox.rejections(name))
    ]
    for (channel, verdict), count in left.items():
        if verdict == "send":
            parts.append(f"{count} pending for {channel}")
        elif verdict == "wait":
            parts.append(f"{count} held back from {channel} until the silence ends")
    return "; ".join(parts)
