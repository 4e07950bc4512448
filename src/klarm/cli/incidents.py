"""`klarm incidents`: the incidents of a run, and who knows of them."""

from __future__ import annotations

import time
from pathlib import Path

import click

from klarm.cli.runs import find_run, started
from klarm.config import load
from klarm.delivery import deliveries
from klarm.delivery.deliveries import Acknowledged, Delivered, Entry, Silenced
from klarm.delivery.outbox import last_step
from klarm.incident_text import COLOURS
from klarm.journal import FILE_NAME
from klarm.journal_scan import recorded_events
from klarm.types import Event

_COLUMNS = ("id", "signal", "severity", "state", "steps", "detectors", "told", "muted")


@click.command()
@click.argument("run", required=False)
def incidents(run: str | None) -> None:
    """List the incidents of RUN: a name, a folder, or the latest run."""
    from rich.console import Console
    from rich.table import Table

    folder = find_run(run, load())
    by_incident: dict[int, list[Event]] = {}
    for _, _, event in recorded_events(folder / FILE_NAME):
        by_incident.setdefault(event.incident, []).append(event)
    head = started(folder)
    entries = [entry for _, entry in deliveries.read(folder) if entry.began == head.started]
    if not by_incident:
        click.echo(f"run {head.run}: no incident")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), title=f"run {head.run}", title_justify="left")
    for column in _COLUMNS:
        table.add_column(column, overflow="fold")
    silences = _in_force(folder, entries)
    for number, events in by_incident.items():
        last = events[-1]
        table.add_row(
            str(number),
            last.signal,
            f"[{COLOURS[last.severity]}]{last.severity}[/]",
            "resolved" if last.event == "resolved" else "open",
            _steps(last),
            ", ".join(last.detectors),
            _told(number, entries),
            _muted(last, entries, silences),
        )
    Console().print(table)


def _steps(last: Event) -> str:
    end = str(last.step) if last.event == "resolved" else ""
    return f"{last.started}–{end}"


def _told(incident: int, entries: list[Entry]) -> str:
    """Return the channels that were told, and those that refused."""
    outcomes = {
        entry.channel: entry.outcome
        for entry in entries
        if isinstance(entry, Delivered)
        and entry.incident == incident
        and entry.outcome in ("sent", "refused")
    }
    return ", ".join(n if o == "sent" else f"{n} (refused)" for n, o in outcomes.items()) or "–"


def _muted(last: Event, entries: list[Entry], silences: list[Silenced]) -> str:
    said = [
        f"acknowledged by {entry.by}"
        for entry in entries
        if isinstance(entry, Acknowledged) and entry.incident == last.incident
    ]
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
    return ", ".join(said[-2:]) or "–"


def _in_force(folder: Path, entries: list[Entry]) -> list[Silenced]:
    step, now = last_step(folder), time.time()
    return [entry for entry in entries if isinstance(entry, Silenced) and entry.holds(step, now)]
