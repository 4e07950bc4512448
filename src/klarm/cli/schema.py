"""`klarm schema`: prints the JSON Schema of klarm.yaml, for editors and other tools."""

from __future__ import annotations

import click

from klarm.config import json_schema
from klarm.terminal import echo_json


@click.command()
def schema() -> None:
    """Print the JSON Schema of klarm.yaml."""
    echo_json(json_schema())
