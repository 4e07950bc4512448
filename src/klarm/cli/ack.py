"""`klarm ack`: acknowledges an incident."""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping
from pathlib import Path

import click

from klarm.cli.options import config_option, run_option
from klarm.cli.run_channels import channels_of
from klarm.cli.runs import send_command
from klarm.cli.which import find_incident
from klarm.config import load
from klarm.delivery import Delivered, Outbox, Run, Verdict, deliveries, prospects_of
from klarm.journal import IncidentRecord, new_key
from klarm.terminal import echo
from klarm.types import Command


@click.command()
@click.argument("incident", metavar="ID")
@run_option
@config_option
@click.option("--by", metavar="NAME", help="Who acknowledges it. [default: the current user]")
@click.option("--undo", is_flag=True, help="Take the acknowledgement back.")
def ack(
    *, incident: str, run: str | None, config_file: Path | None, by: str | None, undo: bool
) -> None:
    """Acknowledge incident ID: its number within the run, or its id.

    This cancels its pending notifications, except critical ones and escalations, which name who
    has acknowledged it. Channels that were notified of the incident are also notified of its end.
    With --undo, the incident is no longer acknowledged; notifications that were cancelled stay
    cancelled.
    """
    settings = load(config_file, lenient=True)
    found = find_incident(incident, run, settings)
    record, folder = found.incident, found.folder
    who = by or getpass.getuser()
    now = time.time()
    outbox = Outbox(folder)
    outbox.refresh()
    named = f"run {found.fold.run}: incident {record.number} ({record.id})"
    if undo:
        if record.id not in outbox.acknowledged:
            raise click.ClickException(f"{named} is not acknowledged")
        back = Command(command="ack_off", key=new_key(), time=now, by=who, incident=record.id)
        send_command(folder, back)
        echo(f"{named} is no longer acknowledged: updates and reminders are sent again")
        return
    given = Command(command="ack", key=new_key(), time=now, by=who, incident=record.id)
    send_command(folder, given)
    echo(f"{named} is acknowledged by {who}")
    entries = [entry for _, entry in deliveries.read(folder) if isinstance(entry, Delivered)]
    known = channels_of(folder, entries, settings)
    if known.problem:
        echo(f"{known.problem}: only its critical notifications are still sent")
        return
    outbox.refresh()
    ahead = prospects_of(Run(found.fold.run, folder), known.routes, outbox, now)
    verdicts = ahead.get(record.id, {})
    for line in _who_is_notified(record, verdicts):
        echo(line)


def _who_is_notified(incident: IncidentRecord, verdicts: Mapping[str, Verdict]) -> list[str]:
    """Return which channels are still notified of an incident, and which are not, in words."""
    if not verdicts:
        return ["no notification of it is pending"]
    critical = incident.severity == "critical"
    words: dict[Verdict, str] = {
        "acknowledged": "no longer sent to {}",
        "silenced": "silenced, so not sent to {}",
        "wait": "held back from {} until the silence ends",
        "send": f"{'critical, so' if critical else 'it got worse or ended, so'} still sent to {{}}",
    }
    channels: dict[Verdict, list[str]] = {}
    for channel, verdict in verdicts.items():
        channels.setdefault(verdict, []).append(channel)
    return [words[verdict].format(", ".join(names)) for verdict, names in channels.items()]
