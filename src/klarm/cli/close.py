"""`klarm close`: closes an incident, or accepts its level as normal."""

from __future__ import annotations

import getpass
import time
from pathlib import Path

import click

from klarm.cli.options import config_option, run_option
from klarm.cli.runs import send_command
from klarm.cli.which import find_incident
from klarm.config import load
from klarm.incidents import subject_of
from klarm.journal import new_key, record_command
from klarm.terminal import echo
from klarm.types import Command
from klarm.wording import ending


@click.command()
@click.argument("incident", metavar="ID")
@run_option
@config_option
@click.option("--accept", is_flag=True, help="Accept the current level as the new normal.")
@click.option("--by", metavar="NAME", help="Who closes it. [default: the current user]")
def close(
    incident: str, run: str | None, config_file: Path | None, accept: bool, by: str | None
) -> None:
    """Close incident ID: its number within the run, or its id, as `klarm incidents` shows them.

    The same problem opens no new incident until the metric has been quiet for a while, unless it
    becomes critical, NaN or 1.5 times worse. With --accept, detectors learn the current level as
    normal, and checkpoints saved during the incident count as good.
    """
    found = find_incident(incident, run, load(config_file, lenient=True))
    record = found.incident
    if not record.is_open:
        raise click.ClickException(
            f"run {found.fold.run}: incident {record.number} ({record.id}) is already resolved: "
            f"{ending(record.last)} at step {record.last.step}"
        )
    command = Command(
        command="accept" if accept else "close",
        key=new_key(),
        time=time.time(),
        by=by or getpass.getuser(),
        incident=record.id,
    )
    done = "accepted" if accept else "closed"
    named = f"run {found.fold.run}: incident {record.number} ({record.id}) on {subject_of(record)}"
    said: list[str] = []
    try:
        is_written = record_command(found.folder, command, said.append)
    except OSError as error:
        raise click.ClickException(f"cannot write {found.folder}: {error.strerror}") from None
    if said:
        raise click.ClickException(said[0])
    if is_written:
        echo(f"{named} is {done}; run `klarm deliver {found.folder}` to notify the channels")
        return
    send_command(found.folder, command)
    echo(f"{named} will be {done} with the run's next step")
