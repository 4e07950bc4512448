"""`klarm deliver`: sends the pending notifications of runs."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from klarm.cli.options import config_option
from klarm.cli.runs import find_run, runs_in, started
from klarm.config import load
from klarm.delivery import Outbox, Outlook, Route, Run, command_to_deliver, outgoing, prospects_of
from klarm.delivery.dispatcher import Delivery
from klarm.journal import FILE_NAME, FormatError, record_crash
from klarm.sources.journal import Damages
from klarm.terminal import echo


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
    say = _say_once()
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
            known = _known(folder)
        except (click.ClickException, FormatError) as error:  # the others are still delivered
            say(error.message if isinstance(error, click.ClickException) else str(error))
            complete = False
            continue
        with contextlib.suppress(OSError):  # the incidents are still sent
            record_crash(folder, say, Damages(folder / FILE_NAME, say))
        delivery = Delivery(
            routes,
            write,
            known,
            say,
            behind=True,
            again="all" if again else "due",
            once=unreached,
            outlook=outlook,
        )
        if not delivery.is_ours:
            echo(f"{known.name}: another process delivers it")
            continue
        delivery.start()
        complete &= delivery.finish(timeout)
        unreached = (unreached - delivery.sent.keys()) | set(delivery.left)
        if said := _in_words(delivery, known, routes):
            echo(f"{known.name}: {said}")
        else:
            up_to_date.append(known.name)
    if len(up_to_date) == 1:
        echo(f"{up_to_date[0]}: nothing pending")
    elif up_to_date:
        echo(f"{len(up_to_date)} runs have nothing pending")
    sys.exit(0 if complete else 1)


def _known(folder: Path) -> Run:
    """Return the run in a folder, or raise ClickException if it cannot be delivered."""
    name = started(folder).run
    if not os.access(folder, os.W_OK):
        raise click.ClickException(
            f"cannot write {folder}: deliveries could not be recorded, so they would be repeated"
        )
    return Run(name, folder)


def _in_words(delivery: Delivery, run: Run, routes: Sequence[Route]) -> str:
    """Report what was sent, rejected and left; nothing if nothing was pending."""
    now = time.time()
    outbox = Outbox(run.folder)
    outbox.refresh()
    left = Counter(
        (channel, verdict)
        for verdicts in prospects_of(run, routes, outbox, now).values()
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


def _say_once() -> Callable[[str], None]:
    """Return a function that reports a channel's problem once, not for every run."""
    said: set[str] = set()

    def say(message: str) -> None:
        if message not in said:
            said.add(message)
            echo(f"klarm: {message}", err=True)

    return say
