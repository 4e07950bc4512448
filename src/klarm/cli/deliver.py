"""`klarm deliver`: sends what runs still owe their channels."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from klarm.cli.runs import find_run, runs_in, started
from klarm.config import load
from klarm.delivery import outgoing
from klarm.delivery.routes import Run
from klarm.delivery.threads import Delivery


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--run", metavar="NAME", help="Only this run.")
@click.option("--again", is_flag=True, help="Send also what channels have refused.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds to try, for each run.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Read settings from this file.",
)
def deliver(
    directory: Path, run: str | None, again: bool, timeout: float, config_file: Path | None
) -> None:
    """Send what the runs in DIRECTORY still owe their channels.

    DIRECTORY is the folder of a run, or of several. For what a run that died could not send, and
    for runs on machines without a network (deliver: elsewhere). May be called at any time, as by
    cron: a run that delivers by itself is left to do so. Exit code 1 if something is left.
    """
    settings = load(config_file, {"dir": str(directory)}, overrides_from="klarm deliver")
    routes = outgoing.routes_of(settings)
    if not routes:
        raise click.UsageError("no channel is configured: nobody could be told")
    write = outgoing.writer_of(settings)
    folders = runs_in(directory) if run is None else [find_run(run, settings)]
    if not folders:
        raise click.UsageError(f"there is no run in {directory}")
    complete = True
    for folder in folders:
        name = started(folder).run
        if not os.access(folder, os.W_OK):
            raise click.ClickException(
                f"cannot write {folder}: what is sent could not be recorded and would be sent again"
            )
        delivery = Delivery(routes, write, Run(name, folder), _say, behind=True, again=again)
        if not delivery.is_ours:
            click.echo(f"{name}: another process delivers it")
            continue
        delivery.start()
        complete &= delivery.finish(timeout)
        sent = ", ".join(f"{count} to {channel}" for channel, count in delivery.sent.items())
        click.echo(f"{name}: sent {sent}")
    sys.exit(0 if complete else 1)


def _say(message: str) -> None:
    click.echo(f"klarm: {message}", err=True)
