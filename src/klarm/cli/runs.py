"""Finds the run that a command is about: by folder or name, or the latest."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from klarm.cli.progress import Progress
from klarm.config import Config
from klarm.journal import (
    FILE_NAME,
    FormatError,
    append_command,
    head_of,
    new_key,
    run_folder,
)
from klarm.settings import did_you_mean
from klarm.sources.journal import Damages
from klarm.types import Command, CommandKind

if TYPE_CHECKING:
    from klarm.runs import RunView


def runs_in(directory: Path) -> list[Path]:
    """Return the folders of the runs in a directory, which may be the folder of a run itself."""
    if (directory / FILE_NAME).is_file():
        return [directory]
    return sorted(journal.parent for journal in directory.glob(f"*/{FILE_NAME}"))


def find_run(run: str | None, settings: Config, *, named_by: str = "with --run") -> Path:
    """Return the folder of a run, given its name or path; by default, of the latest run.

    `named_by` completes the hint how to name a run in this command.
    """
    if run is None:
        known = runs_in(Path(settings.dir).expanduser())
        if not known:
            raise click.ClickException(
                f"there is no run in {settings.dir}; name one, or its folder, {named_by}"
            )
        latest_first = sorted(
            known, key=lambda folder: (folder / FILE_NAME).stat().st_mtime, reverse=True
        )
        # A journal that is empty or unreadable is not taken for the latest run.
        readable = (folder for folder in latest_first if _is_readable(folder / FILE_NAME))
        return next(readable, latest_first[0])
    if (Path(run) / FILE_NAME).is_file():
        return Path(run)
    folder = run_folder(settings.dir, run)
    if not (folder / FILE_NAME).is_file():
        hint = did_you_mean(run, [known.name for known in runs_in(folder.parent)])
        raise click.ClickException(f"there is no run {run} in {settings.dir}{hint}")
    return folder


def view_of(folder: Path, *, lenient: bool = False) -> RunView:
    """Return a view of the run in a folder, or raise ClickException if it cannot be read.

    With `lenient`, nothing is raised: the view itself says what the problem is.
    """
    from klarm.runs import read_run  # it loads numpy

    if not lenient and head_of(folder / FILE_NAME) is None:
        raise click.ClickException(f"{folder / FILE_NAME} does not begin like a journal")
    progress = Progress()
    try:
        view = read_run(folder, progress.on_read)
    finally:
        progress.end()
    if view.problem and not lenient:
        raise click.ClickException(f"{folder / FILE_NAME}: {view.problem}")
    return view


def report_damages(view: RunView, say: Callable[[str], None]) -> None:
    """Report the lines of a run's journal that are ignored."""
    report = Damages(view.folder / FILE_NAME, say)
    for line, why in view.state.damages.first:
        report(line, why)


def command_by(by: str, kind: CommandKind, **about: Any) -> Command:
    """Return a command that somebody gives now."""
    return Command(command=kind, key=new_key(), time=time.time(), by=by, **about)


def send_command(folder: Path, command: Command) -> None:
    """Send a command to a run, and to the process that delivers its notifications."""
    try:
        append_command(folder, command)
    except OSError as error:
        raise click.ClickException(f"cannot write {folder}: {error.strerror}") from None


def _is_readable(journal: Path) -> bool:
    try:
        return head_of(journal) is not None
    except FormatError:
        return False
