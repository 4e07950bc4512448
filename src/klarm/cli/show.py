"""`klarm show`: shows a run or one of its incidents in detail, with its curve."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from klarm.cli.options import complete_run, config_option
from klarm.cli.runs import find_run, view_of
from klarm.cli.which import find_incident
from klarm.config import load
from klarm.delivery import silence_in_words
from klarm.journal import IncidentRecord
from klarm.metrics import METRICS, to_number
from klarm.terminal import rich_console
from klarm.text import as_sentence, clean
from klarm.wording import COLOURS, counted, number, title

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from klarm.runs import RunView

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
    if incident is None:
        _show_run(rich_console(), view_of(folder))
        return
    from klarm.cli.show_incident import show_incident

    found = find_incident(incident, str(folder), settings)
    show_incident(rich_console(), found, settings)


def _show_run(console: Console, run: RunView) -> None:
    from klarm.cli.curve import draw_curve, scale_of
    from klarm.runs import ago

    fold, head = run.fold, run.fold.head
    name = (f"run {clean(run.name)}", "bold")
    console.print(Text.assemble(name, f": {run.activity_text}, ", _health(run)))
    console.print(labelled("folder", str(run.folder)))
    if head is not None:
        origin = [
            f"on {head.host}" if head.host else "",
            f"by {head.framework}" if head.framework else "",
            f"klarm {head.klarm}",
        ]
        where = ", ".join(filter(None, origin))
        console.print(labelled("started", f"{clock(fold.began)}, {ago(fold.began)}, {where}"))
    console.print(labelled("rows", _rows(run)))
    if run.damaged:
        more = f"; {run.damaged - 3} more are ignored" if run.damaged > 3 else ""
        console.print(labelled("damaged", f"{'; '.join(run.state.damages.named[:3])}{more}"))
    if fold.checkpoints:
        step, path = fold.checkpoints[-1]
        last = f"step {step}: {path}"
        console.print(labelled("checkpoint", f"{last} (the last of {len(fold.checkpoints)})"))
    console.print(labelled("metrics", _metrics(run)))
    if points := run.curves[_DRAWN].points:
        console.print()
        console.print(Text(f"KL over the run{scale_of(points)}", "bold"))
        console.print(draw_curve(points, chart_size(console)))
    console.print()
    _show_incidents(console, run)


def _health(run: RunView) -> tuple[str, str]:
    """Return the state of the run in a few words, and its colour."""
    if run.worst is not None:
        return run.worst.severity, COLOURS[run.worst.severity]
    if run.unknown_because:
        return "not watched" if run.not_watched else run.health, COLOURS["warning"]
    return "no open incident", "green"


def _show_incidents(console: Console, run: RunView) -> None:
    known = list(run.incidents.values())
    if run.unknown_because:
        console.print(Text(clean(as_sentence(run.unknown_because)), f"bold {COLOURS['warning']}"))
    if known or not run.unknown_because:
        console.print(Text(counted(len(known), "incident") if known else "no incident", "bold"))
    for one in known:
        colour = COLOURS[one.severity] if one.is_open else "dim"
        number_and_id = Text(f"  {one.number}  {one.id} ", "dim")
        named = f"{title(one.last)}{notes_of(one, run.acknowledged.get(one.id, []))}"
        console.print(beside(number_and_id, Text(clean(named), colour)))
    for silence in run.silences():
        console.print(Text(f"  {clean(silence_in_words(silence))} (by {clean(silence.by)})"))
    if known:
        shown = run.worst or known[-1]
        hint = f"\nDetails of an incident: klarm show {shlex.quote(run.folder.name)} {shown.number}"
        console.print(Text(hint, "dim"))


def _rows(run: RunView) -> str:
    from klarm.runs import ago

    fold = run.fold
    if fold.last_step is None:
        return "none yet"
    parts = [f"{fold.steps:,} (steps {fold.first_step} to {fold.last_step})"]
    parts.append(f"last seen {ago(run.last_seen)}")
    if fold.rolled_back:
        parts.append(f"{fold.rolled_back:,} more were rolled back")
    return ", ".join(parts)


def _metrics(run: RunView) -> str:
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
    column = {"min_width": _LABELS, "max_width": 2 * _LABELS, "overflow": "fold"}
    return beside(Text(f"  {clean(label)}", "dim"), Text(clean(text)), column)


def beside(first: Text, text: Text, column: dict[str, Any] | None = None) -> Table:
    """Return a line whose first part stays alone in its column when the text is wrapped."""
    from rich.table import Table

    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_column(**(column or {"no_wrap": True}))
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
