"""`klarm incidents`: the incidents of a run, and who knows of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from klarm.cli.options import config_option
from klarm.cli.runs import find_run, known_routes, started
from klarm.config import SECTION as CHANNELS
from klarm.config import load
from klarm.delivery import (
    Delivered,
    Entry,
    Outbox,
    Run,
    Silenced,
    Verdict,
    deliveries,
    prospects_of,
    silence_in_words,
)
from klarm.incidents import COLOURS
from klarm.journal import FILE_NAME, recorded_events
from klarm.types import ROLLED_BACK, Event

_COLUMNS = ("id", "signal", "severity", "state", "steps", "detectors", "told", "muted")
# Columns that are folded where a terminal is narrow, and how far at most: in 80 columns, detectors
# are to stay whole.
_WRAPPED = {"state": len("recovered"), "told": None, "muted": None}


@click.command()
@click.argument("run", required=False)
@click.option("--run", "named", metavar="RUN", help="The same, as with ack and silence.")
@config_option
def incidents(run: str | None, named: str | None, config_file: Path | None) -> None:
    """List the incidents of RUN: a name, a folder, or the latest run.

    With the channels that were told of each, those of the configuration that are still owed it, and
    the silences that are in force.
    """
    if run is not None and named is not None:
        raise click.UsageError(f"say which run once: {run}, or --run {named}")
    settings = load(config_file)
    folder = find_run(run or named, settings)
    head = started(folder)
    by_incident: dict[int, list[Event]] = {}
    for _, _, event in recorded_events(folder / FILE_NAME):
        by_incident.setdefault(event.incident, []).append(event)
    now = time.time()
    outbox = Outbox(folder)
    outbox.refresh()
    silences = outbox.in_force(now)
    routes, why_not = known_routes(settings)
    entries = [entry for _, entry in deliveries.read(folder) if entry.began == head.started]
    if by_incident:
        ahead = prospects_of(Run(head.run, folder), routes, outbox, now)
        rows = [
            _row(
                events[-1],
                _told(number, entries, ahead.get(number, {})),
                _muted(events[-1], outbox.acknowledged.get(number, []), entries, silences),
            )
            for number, events in by_incident.items()
        ]
        _show(f"run {head.run}", rows)
    else:
        click.echo(f"run {head.run}: no incident")
    for silence in silences:
        click.echo(f"{silence_in_words(silence)} (by {silence.by})")
    # Who has no channel at all need not hear of it.
    has_channels = settings.channel_settings or head.config.get(CHANNELS) or entries
    if by_incident and why_not and has_channels:
        click.echo(f"klarm: {why_not}: who is still owed a message is not shown", err=True)


def _show(title: str, rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None, padding=(0, 1, 0, 0), pad_edge=False, title=Text(title), title_justify="left"
    )
    for column in _COLUMNS:
        table.add_column(
            column, overflow="fold", no_wrap=column not in _WRAPPED, min_width=_WRAPPED.get(column)
        )
    for row in rows:
        cells = [Text(cell, COLOURS.get(cell, "")) for cell in row]  # type: ignore[call-overload]
        table.add_row(*cells)
    Console().print(table)


def _row(last: Event, told: str, muted: str) -> list[str]:
    state = _state(last)
    ended = state in ("resolved", "not recovered")  # where a run went back to is no end
    return [
        str(last.incident),
        last.signal,
        last.severity,
        state,
        f"{last.started}–{last.step if ended else ''}",
        "\n".join(last.detectors),
        told,
        muted,
    ]


def _state(last: Event) -> str:
    if last.event != "resolved":
        return "open"
    if last.reason == ROLLED_BACK:
        return ROLLED_BACK
    return "resolved" if last.recovered else "not recovered"


def _told(incident: int, entries: Sequence[Entry], ahead: Mapping[str, Verdict]) -> str:
    """Return the channels that were told, those that refused, and those that are still owed."""
    notes = {
        entry.channel: "" if entry.outcome == "sent" else "refused"
        for entry in entries
        if isinstance(entry, Delivered)
        and entry.incident == incident
        and entry.outcome in ("sent", "refused")
    }
    for channel, verdict in ahead.items():
        if verdict in ("send", "wait"):
            waits = "owed" if verdict == "send" else "held back"
            if notes.get(channel) == "refused":
                notes[channel] = f"refused, the rest {waits}"
            else:
                notes[channel] = f"{waits} the rest" if channel in notes else waits
    return ", ".join(f"{name} ({note})" if note else name for name, note in notes.items()) or "–"


def _muted(
    last: Event, names: Sequence[str], entries: Sequence[Entry], silences: Sequence[Silenced]
) -> str:
    said = [f"ack by {', '.join(names)}"] if names else []
    withheld = any(
        isinstance(entry, Delivered)
        and entry.incident == last.incident
        and entry.outcome == "silenced"
        for entry in entries
    )
    in_force = any(
        silence.signal == last.signal and (silence.even_critical or last.severity != "critical")
        for silence in silences
    )
    if withheld or (in_force and last.event != "resolved"):
        said.append("silenced")
    return ", ".join(said) or "–"
