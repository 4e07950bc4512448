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
