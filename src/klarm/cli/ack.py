"""`klarm ack`: somebody knows of an incident."""

from __future__ import annotations

import getpass
import time
from collections.abc import Sequence
from pathlib import Path

import click

from klarm.cli.options import config_option, run_option
from klarm.cli.runs import find_run, incident_numbers, known_routes, started, write_down
from klarm.config import load
from klarm.delivery import Acknowledged, Outbox, Route, Run, Verdict, prospects_of
from klarm.journal import FILE_NAME, recorded_events
from klarm.types import Event


@click.command()
@click.argument("incident", type=int, metavar="ID")
@run_option
@config_option
@click.option("--by", metavar="NAME", help="Who knows; without it, the user of this command.")
def ack(incident: int, run: str | None, config_file: Path | None, by: str | None) -> None:
    """Note that somebody knows of incident ID.

    What is yet to be sent of it no longer is, unless it is critical: then it still is, with the
    name. Its end is told where it was told of.
    """
    settings = load(config_file)
    folder = find_run(run, settings)
    events = [event for _, _, event in recorded_events(folder / FILE_NAME)]
    head = started(folder)
    own = [event for event in events if event.incident == incident]
    if not own:
        raise click.ClickException(
            f"run {head.run} has no incident {incident}; there are {incident_numbers(events)}"
        )
    who = by or getpass.getuser()
    now = time.time()
    write_down(folder, Acknowledged(began=head.started, incident=incident, by=who, time=now))
    click.echo(f"run {head.run}: incident {incident} is acknowledged by {who}")
    routes, why_not = known_routes(settings)
    if why_not:
        click.echo(f"{why_not}: of what channels were not told yet, only the critical is sent")
        return
    for line in _what_becomes_of_it(own, routes, Run(head.run, folder), now):
        click.echo(line)


def _what_becomes_of_it(
    own: Sequence[Event], routes: Sequence[Route], run: Run, now: float
) -> list[str]:
    """Say which channels are still sent something of an incident, and which no longer are."""
    outbox = Outbox(run.folder)
    outbox.refresh()
    verdicts = prospects_of(run, routes, outbox, now).get(own[0].incident, {})
    if not verdicts:
        return ["nothing of it is left to be sent"]
    critical = any(event.severity == "critical" for event in own)
    words: dict[Verdict, str] = {
        "acknowledged": "it is no longer sent to",
        "silenced": "it is silenced, so not sent to",
        "wait": "until the silence is over, it is held back from",
        "send": f"{'it is critical, so' if critical else 'what came of it is'} still sent to",
    }
    channels: dict[Verdict, list[str]] = {}
    for channel, verdict in verdicts.items():
        channels.setdefault(verdict, []).append(channel)
    return [f"{words[verdict]} {', '.join(names)}" for verdict, names in channels.items()]
