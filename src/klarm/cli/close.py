"""`klarm close`: closes an incident, or accepts its level as normal."""

from __future__ import annotations

from pathlib import Path

import click

from klarm.cli.options import by_option, config_option, run_option
from klarm.cli.runs import command_by, send_command
from klarm.cli.which import find_incident
from klarm.config import load
from klarm.incidents import subject_of
from klarm.journal import record_command
from klarm.terminal import echo
from klarm.wording import ending


@click.command()
@click.argument("incident", metavar="ID")
@run_option
@config_option
@click.option("--accept", is_flag=True, help="Accept the current level as the new normal.")
@by_option("closes")
def close(incident: str, run: str | None, config_file: Path | None, accept: bool, by: str) -> None:
    """Close incident ID: its number within the run, or its id, as `klarm incidents` shows them.

    The same problem opens no new incident until the metric has been quiet for a while, unless it
    becomes critical, NaN or 1.5 times worse. With --accept, detectors learn the current level as
    normal, and checkpoints saved during the incident count as good.
    """
    found = find_incident(incident, run, load(config_file, lenient=True))
    view = found.view
    # As its journal has it: if a run died before it applied this command, it can be given again.
    record = view.fold.incidents[found.incident.id]
    if not record.is_open:
        raise click.ClickException(
            f"{found.in_words} is already resolved: {ending(record.last)} at step "
            f"{record.last.step}"
        )
    command = command_by(by, "accept" if accept else "close", incident=record.id)
    done = "accepted" if accept else "closed"
    named = f"{found.in_words} on {subject_of(record)}"
    said: list[str] = []
    try:
        is_written = record_command(view.folder, command, said.append, view.fold)
    except OSError as error:
        raise click.ClickException(f"cannot write {view.folder}: {error.strerror}") from None
    if said:
        raise click.ClickException(said[0])
    if is_written:
        echo(f"{named} is {done}; run `klarm deliver {view.folder}` to notify the channels")
        return
    send_command(view.folder, command)
    echo(f"{named} will be {done} with the run's next step")
