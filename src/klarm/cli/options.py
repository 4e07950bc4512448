"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path

import click

config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Read settings from this file.",
)
run_option = click.option(
    "--run", metavar="RUN", help="A run's name or folder; without it, the latest."
)


def complete_run(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of runs that begin so: for the completion of a shell."""
    from klarm.cli.runs import runs_in
    from klarm.config import load
    from klarm.settings import ConfigError

    try:
        folders = runs_in(Path(load().dir).expanduser())
    except (ConfigError, OSError):
        return []
    return [folder.name for folder in folders if folder.name.startswith(incomplete)]
