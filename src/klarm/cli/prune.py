"""`klarm prune`: deletes the records of old runs, after asking."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

import click

from klarm.cli.options import config_option
from klarm.cli.runs import runs_in
from klarm.config import load
from klarm.delivery import LOCK_NAME as DELIVERY_LOCK
from klarm.delivery import parse_span
from klarm.journal import lock_of
from klarm.snapshots import FOLDER as SNAPSHOTS
from klarm.store import LOGS, FolderStore
from klarm.terminal import echo
from klarm.wording import counted


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option(
    "--older-than",
    default="30d",
    show_default=True,
    metavar="SPAN",
    help="Delete runs that were last written to longer ago: 30min, 12h, 30d.",
)
@click.option("--dry-run", is_flag=True, help="Only list them.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@config_option
def prune(
    directory: Path | None, *, older_than: str, dry_run: bool, yes: bool, config_file: Path | None
) -> None:
    """Delete old runs in DIRECTORY, by default the folder where klarm records runs.

    Only klarm's own files are deleted, never other files in a run's folder, and never those of a
    run that is still training.
    """
    from klarm.runs import ago  # it loads numpy

    now = time.time()
    place = directory or Path(load(config_file, lenient=True).dir).expanduser()
    before = now - _seconds(older_than)
    old = _old_runs(place, before)
    if not old:
        echo(f"no run in {place} is older than {older_than}")
        return
    for folder, written in old.items():
        echo(f"  {folder.name}  last written {ago(written, now)}")
    if dry_run:
        return
    question = f"Delete {counted(len(old), 'run')}? This cannot be undone."
    if not yes and not click.confirm(question, err=True):
        echo("nothing was deleted")
        return
    deleted = sum(_delete(folder, before) for folder in old)
    echo(f"deleted {counted(deleted, 'run')}")
    if deleted < len(old):
        raise click.exceptions.Exit(1)


def _seconds(span: str) -> float:
    try:
        _, until = parse_span(span, None, 0.0)
    except ValueError:
        until = None
    if until is None:
        raise click.UsageError(f"--older-than {span!r} is not a duration; try 30min, 12h or 30d")
    return until


def _old_runs(place: Path, before: float) -> dict[Path, float]:
    """Return the runs that were last written to before a time, and when; the oldest first."""
    found = {
        folder: max(log.stat().st_mtime for log in _logs(folder) if log.is_file())
        for folder in runs_in(place)
        if folder == place or not folder.is_symlink()  # never delete what is elsewhere
    }
    old = {folder: written for folder, written in found.items() if written < before}
    return dict(sorted(old.items(), key=lambda run: run[1]))


def _logs(folder: Path) -> list[Path]:
    """Return the logs of a run, the journal first: without it there is no run."""
    store = FolderStore(folder)
    return [store.path("", log) for log in LOGS]


def _delete(folder: Path, before: float) -> bool:
    """Delete a run and return True; say why if it is kept."""
    store, run = FolderStore(folder.parent), folder.name
    with contextlib.ExitStack() as claims:
        for role in ("record", "deliver"):
            claim = store.claim(run, role)
            if claim is None or claim.doubt:
                echo(f"klarm: {run} is kept: a process may be using it", err=True)
                return False
            claims.callback(claim.release)
        if not _old_runs(folder, before):  # the user took time to answer
            echo(f"klarm: {run} is kept: it was written to meanwhile", err=True)
            return False
        try:
            for log in _logs(folder):
                log.unlink(missing_ok=True)
                lock_of(log).unlink(missing_ok=True)
            (folder / DELIVERY_LOCK).unlink(missing_ok=True)
        except OSError as error:
            echo(f"klarm: {run} could not be deleted completely: {error.strerror}", err=True)
            return False
    shutil.rmtree(folder / SNAPSHOTS, ignore_errors=True)
    store.summary(run, b"")
    try:
        folder.rmdir()
    except OSError:
        echo(f"klarm: {folder} is kept: it holds files that are not klarm's", err=True)
    return True
