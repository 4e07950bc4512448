"""`klarm show`: shows a run or one of its incidents in detail, with its curve."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from klarm.cli.curve import draw_curve, scale_of
from klarm.cli.options import complete_run, config_option
from klarm.cli.recorded import RecordedRun, acknowledged_in, ago, read_run
from klarm.cli.runs import find_run, started
from klarm.cli.which import find_incident
from klarm.config import load
from klarm.delivery import Outbox, silence_in_words
from klarm.journal import IncidentRecord
from klarm.metrics import METRICS, to_number
from klarm.terminal import rich_console
from klarm.text import as_sentence, clean
from klarm.wording import COLOURS, counted, number, title

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_DRAWN = "kl"
MAX_WIDTH, CHART_HEIGHT = 100, 9
_LABELS = 13  # columns


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@click.argument("incident", required=False)
@config_option
def show(run: str | None, incident: str | None, config_file: Path | None) -> None:
    """Show RUN (a name, a folder, or the latest), or one INCIDENT of it.

    INCIDENT is a number within the run or an id, as `klarm incidents` lists them.
    """
    settings = load(config_file, lenient=True)
    folder = find_run(run, settings, named_by="as in klarm show FOLDER")
    started(folder)  # raises if the file is not a journal
    if incident is None:
        _show_run(rich_console(), read_run(folder, _DRAWN))
        return
    from klarm.cli.show_incident import show_incident

    found = find_incident(incident, str(folder), settings)
    show_incident(rich_console(), found, settings)


def _show_run(console: Console, run: RecordedRun) -> None:
    from rich.text import Text

    fold, head = run.fold, run.fold.head
    console.print(
        Text.assemble(
            (f"run {clean(fold.run)}", "bold"),
            f": {run.activity_text}, ",
            _health(run),
        )
    )
    console.print(labelled("folder", str(run.folder)))
    if head is not None:
        origin = [
            f"on {head.host}" if head.host else "",
            f"by {head.framework}",
            f"klarm {head.klarm}",
        ]
        where = ", ".join(part for part in origin if part not in ("", "by "))
        console.print(labelled("started", f"{clock(fold.began)}, {ago(fold.began)}, {where}"))
    console.print(labelled("rows", _rows(run)))
    if run.damaged:
        lines = counted(run.damaged, "line")
        console.print(labelled("damaged", f"{lines} of the journal are ignored"))
    if fold.checkpoints:
        step, path = fold.checkpoints[-1]
        last = f"step {step}: {path}"
        console.print(labelled("checkpoint", f"{last} (the last of {len(fold.checkpoints)})"))
    console.print(labelled("metrics", _metrics(run)))
    if run.curves[_DRAWN].points:
        console.print()
        points = run.curves[_DRAWN].points
        console.print(heading(f"KL over the run{scale_of(points)}"))
        console.print(draw_curve(points, chart_size(console)))
    _show_incidents(console, run)


def _health(run: RecordedRun) -> tuple[str, str]:
    """Return the state of the run in a few words, and its colour."""
    if run.open_incidents:
        worst = run.open_incidents[0].severity
        return worst, COLOURS[worst]
    if run.unknown_because:
        return "not watched" if run.not_watched else run.health, COLOURS["warning"]
    return "no open incident", "green"


def _show_incidents(console: Console, run: RecordedRun) -> None:
    from rich.text import Text

    console.print()
    known = list(run.fold.incidents.values())
    if run.unknown_because:
        console.print(Text(clean(as_sentence(run.unknown_because)), f"bold {COLOURS['warning']}"))
    if known or not run.unknown_because:
        console.print(heading(f"{counted(len(known), 'incident')}" if known else "no incident"))
    acknowledged = acknowledged_in(run.folder)
    for one in known:
        colour = COLOURS[one.severity] if one.is_open else "dim"
        number_and_id = Text(f"  {one.number}  {one.id} ", "dim")
        named = f"{title(one.last)}{notes_of(one, acknowledged.get(one.id, []))}"
        console.print(beside(number_and_id, Text(clean(named), colour)))
    outbox = Outbox(run.folder)
    outbox.refresh()
    for silence in outbox.in_force(time.time()):
        console.print(Text(f"  {clean(silence_in_words(silence))} (by {clean(silence.by)})"))
    if known:
        shown = run.open_incidents[0] if run.open_incidents else known[-1]
        hint = f"\nDetails of an incident: klarm show {run.fold.run} {shown.number}"
        console.print(Text(hint, "dim"))


def _rows(run: RecordedRun) -> str:
    fold = run.fold
    if fold.last_step is None:
        return "none yet"
    parts = [f"{fold.steps:,} (steps {fold.first_step} to {fold.last_step})"]
    parts.append(f"last seen {ago(run.last_seen)}")
    if fold.rolled_back:
        parts.append(f"{fold.rolled_back:,} more were rolled back")
    return ", ".join(parts)


def _metrics(run: RecordedRun) -> str:
    """Return the last value of each metric, with the trainer's key if it is different."""
    parts = []
    for name in sorted(run.latest, key=lambda name: (name not in METRICS, name)):
        value = to_number(run.latest[name])
        if value is None:
            continue
        origin = run.fold.origins.get(name)
        key = f" ← {origin.key}" if origin is not None and origin.key != name else ""
        parts.append(f"{name} {number(value)}{key}")
    return "; ".join(parts) or "none"


def labelled(label: str, text: str) -> Table:
    """Return a line with a label and a text, which is wrapped beside the label."""
    from rich.table import Table
    from rich.text import Text

    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_column(min_width=_LABELS, max_width=2 * _LABELS, overflow="fold")
    line.add_column(overflow="fold")
    line.add_row(Text(f"  {clean(label)}", "dim"), Text(clean(text)))
    return line


def beside(first: Text, text: Text) -> Table:
    """Return a line whose first part stays alone in its column when the text is wrapped."""
    from rich.table import Table

    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_column(no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(first, text)
    return line


def notes_of(incident: IncidentRecord, acknowledged_by: Sequence[str]) -> str:
    """Return what follows the title of an incident: when it became critical, who is on it."""
    notes = ""
    if incident.raised is not None:
        notes += f", critical from step {incident.raised} on"
    if acknowledged_by:
        notes += f", acknowledged by {', '.join(acknowledged_by)}"
    return notes


def heading(text: str) -> Text:
    """Return a heading."""
    from rich.text import Text

    return Text(text, "bold")


def chart_size(console: Console) -> tuple[int, int]:
    """Return the number of columns and rows of a curve."""
    return min(console.width, MAX_WIDTH), CHART_HEIGHT


def clock(moment: float) -> str:
    """Return a readable time in UTC, as in messages."""
    try:
        utc = time.gmtime(moment)
    except (OverflowError, ValueError, OSError):  # not a possible time
        return "unknown"
    return time.strftime("%Y-%m-%d %H:%M UTC", utc) if moment > 0 else "unknown"
