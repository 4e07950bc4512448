"""Which run a command means (a folder, a name, or the latest), and what it needs to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from klarm.config import Config
from klarm.delivery import Route, deliveries, outgoing
from klarm.journal import FILE_NAME, Started, read_journal, run_folder
from klarm.settings import ConfigError, did_you_mean
from klarm.types import Event


def runs_in(directory: Path) -> list[Path]:
    """Return the folders of the runs in a directory, which may be one itself."""
    if (directory / FILE_NAME).is_file():
        return [directory]
    return sorted(journal.parent for journal in directory.glob(f"*/{FILE_NAME}"))


def find_run(run: str | None, settings: Config) -> Path:
    """Return the folder of a run: of that name or path, or else the one written to last."""
    if run is None:
        known = runs_in(Path(settings.dir).expanduser())
        if not known:
            raise click.ClickException(
                f"there is no run in {settings.dir}; name one, or its folder, with --run"
            )
        return max(known, key=lambda folder: (folder / FILE_NAME).stat().st_mtime)
    if (Path(run) / FILE_NAME).is_file():
        return Path(run)
    folder = run_folder(settings.dir, run)
    if not (folder / FILE_NAME).is_file():
        hint = did_you_mean(run, [known.name for known in runs_in(folder.parent)])
        raise click.ClickException(f"there is no run {run} in {settings.dir}{hint}")
    return folder


def started(folder: Path) -> Started:
    """Return the first line of a run's journal."""
    first = next(read_journal(folder / FILE_NAME), None)
    if not isinstance(first, Started):
        raise click.ClickException(f"{folder / FILE_NAME} does not begin as a journal does")
    return first


def incident_numbers(events: list[Event]) -> str:
    """Return the numbers of incidents, for a message."""
    numbers = sorted({event.incident for event in events})
    return ", ".join(map(str, numbers[-10:])) or "none"


def known_routes(settings: Config) -> tuple[Sequence[Route], str]:
    """Return the channels of a configuration, or none and why.

    Where somebody looks at a run, the secrets of its channels may not be there.
    """
    try:
        routes = outgoing.routes_of(settings)
    except ConfigError as error:
        return [], str(error)
    return routes, "" if routes else "no channel is configured here"


def write_down(folder: Path, entry: deliveries.Entry) -> None:
    """Add to what people said of a run."""
    try:
        deliveries.append(folder, entry)
    except OSError as error:
        raise click.ClickException(f"cannot write {folder}: {error.strerror}") from None
