"""`klarm close`: a person ends an incident, or accepts its level as normal."""

from __future__ import annotations

import getpass
import time
from pathlib import Path

import click
from msgspec.structs import replace

from klarm.cli.options import config_option, run_option
from klarm.cli.runs import tell_run
from klarm.cli.which import Found, find_incident
from klarm.config import load
from klarm.journal import (
    FILE_NAME,
    FileJournal,
    InUseError,
    is_surely_free,
    new_key,
)
from klarm.types import Command, Event


@click.command()
@click.argument("incident", metavar="ID")
@run_option
@config_option
@click.option("--accept", is_flag=True, help="The level is normal from now on.")
@click.option("--by", metavar="NAME", help="Who closes it; without it, the user of this command.")
def close(
    incident: str, run: str | None, config_file: Path | None, accept: bool, by: str | None
) -> None:
    """Close incident ID: a number within the run, or its id.

    The same metric and direction opens nothing until it was quiet, or is NaN, graver or 1.5 times
    worse. With --accept, detectors start afresh from the level where it is, and checkpoints saved
    during the incident count as good.
    """
    found = find_incident(incident, run, load(config_file))
    record = found.incident
    if not record.is_open:
        raise click.ClickException(
            f"run {found.fold.run}: incident {record.number} ({record.id}) is resolved already: "
            f"{record.reason.replace('_', ' ')} at step {record.last.step}"
        )
    command = Command(
        command="accept" if accept else "close",
        key=new_key(),
        time=time.time(),
        by=by or getpass.getuser(),
        incident=record.id,
    )
    done = "accepted" if accept else "closed"
    named = f"run {found.fold.run}: incident {record.number} ({record.id}) on {record.signal}"
    try:
        if is_surely_free(found.folder / FILE_NAME) and _write_to_journal(found, command):
            click.echo(f"{named} is {done}; `klarm deliver {found.folder}` tells the channels")
            return
    except OSError as error:
        raise click.ClickException(f"cannot write {found.folder}: {error.strerror}") from None
    tell_run(found.folder, command)
    click.echo(f"{named} will be {done} with the run's next step")


def _write_to_journal(found: Found, command: Command) -> bool:
    """Record it where no process is training; return whether that is so."""
    said: list[str] = []
    try:
        journal = FileJournal(found.folder, said.append)
    except InUseError:
        return False
    last = found.fold.last_step or 0
    journal.record(replace(command, step=last + 1), [_resolved(found.incident.last, command, last)])
    journal.close(timeout=5.0)
    if said:
        raise click.ClickException(said[0])
    return True


def _resolved(last: Event, command: Command, step: int) -> Event:
    accepted = command.command == "accept"
    return replace(
        last,
        event="resolved",
        step=step,
        reason="accepted" if accepted else "closed",
        recovered=accepted,
        by=command.by,
        rows=None,
        moved="",
        pattern="",
        cause="",
        remedy="",
    )
