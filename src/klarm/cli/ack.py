"""`klarm ack`: acknowledges an incident."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import click

from klarm.cli.options import by_option, config_option, run_option
from klarm.cli.run_channels import channels_of
from klarm.cli.runs import command_by, send_command
from klarm.cli.which import find_incident
from klarm.config import load
from klarm.delivery import Run, Verdict, prospects_of
from klarm.journal import IncidentRecord
from klarm.terminal import echo


@click.command()
@click.argument("incident", metavar="ID")
@run_option
@config_option
@by_option("acknowledges")
@click.option("--undo", is_flag=True, help="Take the acknowledgement back.")
def ack(*, incident: str, run: str | None, config_file: Path | None, by: str, undo: bool) -> None:
    """Acknowledge incident ID: its number within the run, or its id.

    This cancels its pending notifications, except critical ones and escalations, which name who
    has acknowledged it. Channels that were notified of the incident are also notified of its end.
    With --undo, the incident is no longer acknowledged; notifications that were cancelled stay
    cancelled.
    """
    settings = load(config_file, lenient=True)
    found = find_incident(incident, run, settings)
    view, record = found
    if undo:
        if record.id not in view.acknowledged:
            raise click.ClickException(f"{found.in_words} is not acknowledged")
        send_command(view.folder, command_by(by, "ack_off", incident=record.id))
        echo(f"{found.in_words} is no longer acknowledged: updates and reminders are sent again")
        return
    send_command(view.folder, command_by(by, "ack", incident=record.id))
    echo(f"{found.in_words} is acknowledged by {by}")
    known = channels_of(view, settings)
    if known.problem:
        echo(f"{known.problem}: only its critical notifications are still sent")
        return
    outbox = view.outbox_saying(lambda _: None)  # which knows of the command
    ahead = prospects_of(Run(view.name, view.folder), known.routes, outbox, time.time())
    for line in _who_is_notified(record, ahead.get(record.id, {})):
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
