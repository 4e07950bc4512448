"""`klarm incidents`: lists the incidents of a run, and who was notified of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from klarm.cli.options import config_option, table_or_json_option
from klarm.cli.run_channels import channels_of
from klarm.cli.runs import find_run, report_damages, view_of
from klarm.config import load
from klarm.delivery import Run, Silence, Verdict, prospects_of, silence_in_words
from klarm.incidents import subject_of
from klarm.journal import IncidentRecord
from klarm.terminal import echo, echo_json, rich_console
from klarm.text import as_sentence, clean
from klarm.wording import COLOURS, standing

if TYPE_CHECKING:
    from klarm.runs import RunView

_COLUMNS = ("#", "id", "about", "severity", "state", "steps", "detectors", "notified", "muted")
# The columns that are wrapped in a narrow terminal, with their minimum width. The names of
# detectors are not broken at 80 columns.
_WIDE = 100
_WRAPPED = {"state": len("unresolved"), "notified": None, "muted": None}


@click.command()
@click.argument("run", required=False)
@click.option("--run", "named", metavar="RUN", help="The same as RUN, as in ack and silence.")
@table_or_json_option
@config_option
def incidents(run: str | None, named: str | None, form: str, config_file: Path | None) -> None:
    """List the incidents of RUN: a name, a folder, or the latest run.

    The table shows which channels were notified of each incident, and for which channels of the
    run notifications are pending. The silences in force are listed below it.
    """
    if run is not None and named is not None:
        raise click.UsageError(f"name the run once: {run}, or --run {named}")
    settings = load(config_file, lenient=True)
    view = view_of(find_run(run or named, settings))
    damaged: list[str] = []

    def report(said: str) -> None:
        damaged.append(said)
        echo(f"klarm: {said}", err=True)

    report_damages(view, report)
    outbox, now = view.outbox_saying(report), time.time()
    silences, to_notify = outbox.in_force(now), channels_of(view, settings)
    ahead = prospects_of(Run(view.name, view.folder), to_notify.routes, outbox, now)
    if form == "json":
        from klarm.cli.incidents_json import as_json

        names = to_notify.names
        echo_json(as_json(view, outbox, ahead, silences, channels=names, damaged=damaged))
        return
    if view.incidents:
        rows = [
            _row(
                known,
                view.may_go_on,
                _notified(view, known, ahead.get(known.id, {})),
                _muted(view, known, outbox.acknowledged.get(known.id, []), silences),
            )
            for known in view.incidents.values()
        ]
        _show(f"run {view.name}", rows)
        if view.unknown_because:
            echo(as_sentence(view.unknown_because))
    else:
        echo(f"run {view.name}: {view.unknown_because or 'no incident'}")
    for silence in silences:
        echo(f"{silence_in_words(silence)} (by {silence.by})")
    if view.incidents and to_notify.problem:
        echo(f"klarm: {to_notify.problem}: pending notifications are not shown", err=True)


def _show(title: str, rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table

    console = rich_console()
    table = Table(
        box=None, padding=(0, 1, 0, 0), pad_edge=False, title=Text(title), title_justify="left"
    )
    columns = list(_COLUMNS)
    stacked = console.width < _WIDE
    if stacked:  # the severity is shown below what it is about
        columns.remove("severity")
    for column in columns:
        table.add_column(
            column, overflow="fold", no_wrap=column not in _WRAPPED, min_width=_WRAPPED.get(column)
        )
    for row in rows:
        cells = [Text(clean(cell), COLOURS.get(cell, "")) for cell in row]  # type: ignore[call-overload]
        if stacked:
            severity = cells.pop(_COLUMNS.index("severity"))
            cells[_COLUMNS.index("about")].append("\n").append(severity)
        table.add_row(*cells)
    console.print(table)


def _row(incident: IncidentRecord, may_go_on: bool, notified: str, muted: str) -> list[str]:
    # A rollback has a step, but it is not the end of the incident.
    ended = incident.state == "resolved" and not incident.was_rolled_back
    return [
        str(incident.number),
        incident.id,
        subject_of(incident),
        incident.severity,
        standing(incident, may_go_on=may_go_on),
        f"{incident.last.started}–{incident.last.step if ended else ''}",
        "\n".join(incident.last.detectors),
        notified,
        muted,
    ]


def _notified(view: RunView, incident: IncidentRecord, ahead: Mapping[str, Verdict]) -> str:
    """Return the channels that were notified, that rejected a message, or that are pending."""
    notes = {
        entry.channel: "" if entry.outcome == "sent" else "rejected"
        for entry in view.deliveries
        if entry.id == incident.id and entry.outcome in ("sent", "refused")
    }
    for channel, verdict in ahead.items():
        if verdict in ("send", "wait"):
            waits = "pending" if verdict == "send" else "held back"
            if notes.get(channel) == "rejected":
                notes[channel] = f"rejected, more {waits}"
            else:
                notes[channel] = f"more {waits}" if channel in notes else waits
    return ", ".join(f"{name} ({note})" if note else name for name, note in notes.items()) or "–"


def _muted(
    view: RunView, incident: IncidentRecord, names: Sequence[str], silences: Sequence[Silence]
) -> str:
    said = [f"ack by {', '.join(names)}"] if names else []
    withheld = any(
        entry.id == incident.id and entry.outcome == "silenced" for entry in view.deliveries
    )
    in_force = any(
        silence.signal == incident.signal
        and (silence.even_critical or incident.severity != "critical")
        for silence in silences
    )
    if withheld or (in_force and incident.is_open):
        said.append("silenced")
    return ", ".join(said) or "–"
