"""`klarm incidents`: lists the incidents of a run, and who was notified of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from klarm.cli.options import config_option, table_or_json_option
from klarm.cli.recorded import read_run
from klarm.cli.run_channels import channels_of
from klarm.cli.runs import find_run, started
from klarm.config import load
from klarm.delivery import (
    Delivered,
    Outbox,
    Run,
    Silence,
    Verdict,
    deliveries,
    prospects_of,
    silence_in_words,
)
from klarm.incidents import subject_of
from klarm.journal import FILE_NAME, IncidentRecord, is_surely_free
from klarm.sources.journal import Damages
from klarm.terminal import echo, echo_json, rich_console
from klarm.text import as_sentence, clean
from klarm.wording import COLOURS, standing

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
    folder = find_run(run or named, settings)
    head = started(folder)
    journal = folder / FILE_NAME
    damaged: list[str] = []

    def report(said: str) -> None:
        damaged.append(said)
        echo(f"klarm: {said}", err=True)

    recorded = read_run(folder, on_damage=Damages(journal, report))
    if recorded.problem:
        raise click.ClickException(f"{journal}: {recorded.problem}")
    fold, unknown = recorded.fold, recorded.unknown_because
    now = time.time()
    outbox = Outbox(folder, say=report)
    outbox.refresh()
    silences = outbox.in_force(now)
    entries = [entry for _, entry in deliveries.read(folder) if isinstance(entry, Delivered)]
    to_notify = channels_of(folder, entries, settings)
    live = not is_surely_free(journal)
    may_go_on = live or recorded.activity == "detached"
    ahead = prospects_of(Run(head.run, folder), to_notify.routes, outbox, now)
    if form == "json":
        from klarm.cli.incidents_json import as_json

        echo_json(
            as_json(
                fold,
                outbox,
                entries,
                ahead,
                live=live,
                silences=silences,
                channels=to_notify.names,
                damaged=damaged,
                not_watched=as_sentence(unknown),
            )
        )
        return
    if fold.incidents:
        rows = [
            _row(
                known,
                may_go_on,
                _notified(known.id, entries, ahead.get(known.id, {})),
                _muted(known, outbox.acknowledged.get(known.id, []), entries, silences),
            )
            for known in fold.incidents.values()
        ]
        _show(f"run {head.run}", rows)
        if unknown:
            echo(as_sentence(unknown))
    else:
        echo(f"run {head.run}: {unknown or 'no incident'}")
    for silence in silences:
        echo(f"{silence_in_words(silence)} (by {silence.by})")
    if fold.incidents and to_notify.problem:
        echo(f"klarm: {to_notify.problem}: pending notifications are not shown", err=True)


def _show(title: str, rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

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


def _notified(id_: str, entries: Sequence[Delivered], ahead: Mapping[str, Verdict]) -> str:
    """Return the channels that were notified, that rejected a message, or that are pending."""
    notes = {
        entry.channel: "" if entry.outcome == "sent" else "rejected"
        for entry in entries
        if entry.id == id_ and entry.outcome in ("sent", "refused")
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
    incident: IncidentRecord,
    names: Sequence[str],
    entries: Sequence[Delivered],
    silences: Sequence[Silence],
) -> str:
    said = [f"ack by {', '.join(names)}"] if names else []
    withheld = any(entry.id == incident.id and entry.outcome == "silenced" for entry in entries)
    in_force = any(
        silence.signal == incident.signal
        and (silence.even_critical or incident.severity != "critical")
        for silence in silences
    )
    if withheld or (in_force and incident.is_open):
        said.append("silenced")
    return ", ".join(said) or "–"
