"""`klarm ack`: somebody knows of an incident."""

from __future__ import annotations

import getpass
import time

import click

from klarm.cli.runs import find_run, incident_numbers, started
from klarm.config import load
from klarm.delivery import deliveries
from klarm.delivery.deliveries import Acknowledged
from klarm.journal import FILE_NAME
from klarm.journal_scan import recorded_events


@click.command()
@click.argument("incident", type=int, metavar="ID")
@click.option("--run", metavar="RUN", help="A run's name or folder; without it, the latest.")
@click.option("--by", metavar="NAME", help="Who knows; without it, the user of this command.")
def ack(incident: int, run: str | None, by: str | None) -> None:
    """Note that somebody knows of incident ID.

    It is no longer sent that it opened. That it becomes critical, or is over, still is.
    """
    folder = find_run(run, load())
    events = [event for _, _, event in recorded_events(folder / FILE_NAME)]
    head = started(folder)
    if all(event.incident != incident for event in events):
        raise click.ClickException(
            f"run {head.run} has no incident {incident}; there are {incident_numbers(events)}"
        )
    who = by or getpass.getuser()
    entry = Acknowledged(began=head.started, incident=incident, by=who, time=time.time())
    try:
        deliveries.append(folder, entry)
    except OSError as error:
        raise click.ClickException(f"cannot write {folder}: {error.strerror}") from None
    click.echo(f"run {head.run}: incident {incident} is acknowledged by {who}")
