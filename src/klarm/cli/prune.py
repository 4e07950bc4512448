"""`klarm prune`: deletes the records of old runs, after asking."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import click

from klarm.cli.options import config_option
from klarm.cli.runs import runs_in
from klarm.config import load
from klarm.delivery import LOCK_NAME as DELIVERY_LOCK
from klarm.delivery import parse_span
from klarm.journal import FILE_NAME, Claim, lock_of
from klarm.snapshots import FOLDER as SNAPSHOTS
from klarm.store import LOGS, FolderStore
from klarm.terminal import echo
from klarm.wording import counted

# The journal is deleted first: without it there is no run, even if the rest is interrupted.
_FILES = tuple(FolderStore(Path()).path("", log).name for log in LOGS)
_LOCKS = tuple(lock_of(Path(name)).name for name in _FILES)
_UNITS = ("B", "kB", "MB", "GB", "TB")


class OldRun(NamedTuple):
    """A run that was not written to for a long time."""

    folder: Path
    written: float
    size: int


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option(
    "--older-than",
    default="30d",
    show_default=True,
    metavar="SPAN",
    help="Delete runs that were last written to longer ago: 30min, 12h, 30d.",
)
@click.option("--yes", is_flag=True, help="Delete without asking.")
@config_option
def prune(directory: Path | None, older_than: str, yes: bool, config_file: Path | None) -> None:
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
    for run in old:
        echo(f"  {run.folder.name}  last written {ago(run.written, now)}, {_bytes(run.size)}")
    what = f"{counted(len(old), 'run')}, {_bytes(sum(run.size for run in old))}"
    if not yes and not click.confirm(f"Delete {what}? This cannot be undone.", err=True):
        echo("nothing was deleted")
        return
    deleted = sum(_delete(run, before) for run in old)
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


def _old_runs(place: Path, before: float) -> list[OldRun]:
    """Return the runs that were last written to before a time, the oldest first."""
    found = []
    for folder in runs_in(place):
        if folder.is_symlink() and folder != place:  # never delete what is elsewhere
            continue
        with contextlib.suppress(OSError):
            files = [entry.stat() for entry in _own_files(folder)]
            written = max(entry.st_mtime for entry in files)
            if written < before:
                found.append(OldRun(folder, written, sum(entry.st_size for entry in files)))
    return sorted(found, key=lambda run: run.written)


def _own_files(folder: Path) -> list[Path]:
    """Return the files of a run that klarm wrote."""
    names = [folder / name for name in _FILES if (folder / name).is_file()]
    snapshots = folder / SNAPSHOTS
    if snapshots.is_dir() and not snapshots.is_symlink():
        names += [path for path in snapshots.iterdir() if path.is_file()]
    return names


def _delete(run: OldRun, before: float) -> bool:
    """Delete a run and return True; report why if a process is, or may be, using it."""
    name = run.folder.name
    claims: list[Claim] = []
    try:
        for lock in (lock_of(run.folder / FILE_NAME), run.folder / DELIVERY_LOCK):
            claim = Claim.on(lock)
            if claim is None or claim.doubt:
                doubt = f" ({claim.doubt})" if claim is not None else ""
                echo(f"klarm: {name} is kept: a process may be using it{doubt}", err=True)
                return False
            claims.append(claim)
        if (run.folder / FILE_NAME).stat().st_mtime >= before:  # the user took time to answer
            echo(f"klarm: {name} is kept: it was written to meanwhile", err=True)
            return False
        for path in _FILES:
            (run.folder / path).unlink(missing_ok=True)
        if not (run.folder / SNAPSHOTS).is_symlink():
            shutil.rmtree(run.folder / SNAPSHOTS, ignore_errors=True)
        for path in (*_LOCKS, DELIVERY_LOCK):
            (run.folder / path).unlink(missing_ok=True)
    except OSError as error:
        echo(f"klarm: {name} could not be deleted completely: {error.strerror}", err=True)
        return False
    finally:
        for claim in claims:
            claim.release()
    _remove_if_empty(run.folder)
    return True


def _remove_if_empty(folder: Path) -> None:
    others = sorted(path.name for path in folder.iterdir())
    if others:
        kept = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        echo(f"klarm: {folder} is kept: it holds files that are not klarm's: {kept}", err=True)
        return
    with contextlib.suppress(OSError):
        folder.rmdir()


def _bytes(size: float) -> str:
    """Return a size in readable units.

    >>> _bytes(512), _bytes(20_480), _bytes(3_500_000)
    ('512 B', '20 kB', '3.5 MB')
    """
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            break
        size /= 1000
    return f"{size:.2g} {unit}" if size < 10 and unit != "B" else f"{size:.0f} {unit}"
