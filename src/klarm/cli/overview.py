"""`klarm runs`: lists all runs in a folder, the worst first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from klarm.cli.options import config_option, table_or_json_option
from klarm.cli.progress import Progress
from klarm.cli.runs import runs_in, view_of
from klarm.config import load
from klarm.incidents import subject_of
from klarm.metrics import to_number
from klarm.terminal import echo, echo_json, rich_console
from klarm.text import as_sentence, clean, clean_line
from klarm.types import SEVERITIES
from klarm.wording import COLOURS, number

if TYPE_CHECKING:
    from klarm.runs import RunView

_KL = "kl"
_WIDE = 100  # a terminal with this many columns has room for a long sparkline
_SPARKLINE, _SHORT_SPARKLINE = 24, 10
_MAX_NAME = 24


@click.command("runs")
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@table_or_json_option
@config_option
def runs(directory: Path | None, form: str, config_file: Path | None) -> None:
    """List the runs in DIRECTORY, by default the folder where klarm records runs.

    Runs with an open critical incident come first, then those with an open warning, then those
    whose metrics klarm does not know.
    """
    place = directory or Path(load(config_file, lenient=True).dir).expanduser()
    folders = runs_in(place)
    if directory is not None and not folders:
        what = "there is no run in" if directory.is_dir() else "there is no folder"
        raise click.ClickException(f"{what} {directory}")
    progress = Progress(counted=f"of {len(folders)} runs")
    views = [view_of(folder, lenient=True) for folder in progress.over(folders)]
    found = sorted(views, key=lambda run: run.order)
    if form == "json":
        echo_json([_as_json(run) for run in found])
    elif found:
        _show(found)
    else:
        echo(f"there is no run in {place} yet: klarm.init or `klarm follow` records one")


def _show(runs: list[RunView]) -> None:
    from rich.table import Table

    from klarm.runs import ago

    console = rich_console()
    width = _SPARKLINE if console.width >= _WIDE else _SHORT_SPARKLINE
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("run", overflow="fold", max_width=_MAX_NAME)
    for name in ("state", "rows", "last seen", "KL"):
        is_number = name in ("rows", "KL")
        table.add_column(name, no_wrap=True, justify="right" if is_number else "left")
    table.add_column("", no_wrap=True)
    table.add_column("unresolved", overflow="fold")
    for run in runs:
        curve = run.curves[_KL]
        seen = ago(run.last_seen) if run.last_seen else "–"
        table.add_row(
            Text(
                clean_line(
                    run.name if run.name == run.folder.name else f"{run.name} ({run.folder})"
                )
            ),
            run.activity_text if (state := _state(run)) == run.activity else state,
            f"{run.fold.steps:,}",
            seen,
            number(curve.last) if curve.last is not None else "–",
            Text(curve.sparkline(width), "bright_cyan"),
            _open(run),
        )
    console.print(table)


def _state(run: RunView) -> str:
    if run.problem or run.health == "unreadable":
        return "unreadable"
    return "empty" if run.health == "empty" and run.activity != "training" else run.activity


def _open(run: RunView) -> Text:
    """Return what the open incidents are about, and whether someone is on them."""
    if run.problem:
        return Text(clean(run.problem), "dim")
    parts = []
    found, acknowledged = run.open_incidents, run.acknowledged
    for severity in reversed(SEVERITIES):
        named = [
            f"{subject_of(one)}{' (acknowledged)' if one.id in acknowledged else ''}"
            for one in found
            if one.severity == severity
        ]
        if named:
            parts.append(Text(f"{severity}: {', '.join(dict.fromkeys(named))}", COLOURS[severity]))
    if run.not_watched:
        why = clean_line(run.why_not_watched)
        parts.append(Text(f"not watched: {why}", COLOURS["warning"]))
    return Text("; ").join(parts) if parts else Text("–")


def _as_json(run: RunView) -> dict[str, object]:
    kl = to_number(run.curves[_KL].last)
    return {
        "run": run.name,
        "folder": str(run.folder),
        "state": _state(run),
        "health": run.health,
        "steps": run.fold.steps,
        "last_step": run.fold.last_step,
        "last_seen": run.last_seen or None,
        "kl": None if kl is None else number(kl) if kl - kl != 0 else kl,
        "open_incidents": [known.as_dict() for known in run.open_incidents],
        "problem": run.problem,
        "not_watched": as_sentence(run.not_watched),
    }
