"""`klarm detectors`: what klarm can notice, and its settings."""

from __future__ import annotations

import click

from klarm.detectors import known_detectors
from klarm.metrics import METRICS
from klarm.settings import settings_of
from klarm.terminal import rich_console


@click.command()
def detectors() -> None:
    """List the detectors with their settings and defaults."""
    from rich.table import Table
    from rich.text import Text

    console = rich_console()
    for kind in known_detectors():
        name = kind.watches[0]
        metric = f"{name}: {METRICS[name].meaning}" if name in METRICS else name
        first_sentence = (kind.__doc__ or "").strip().split("\n")[0]
        console.print(Text.assemble((kind.name, "bold"), f"  {first_sentence}"))
        watched = "every metric" if kind.watches_all else metric
        console.print(f"  watches {watched}", highlight=False)
        table = Table(box=None, padding=(0, 2), show_header=False)
        table.add_column(no_wrap=True, style="cyan")
        table.add_column(no_wrap=True)
        table.add_column(style="dim")
        for declared in settings_of(kind).values():
            table.add_row(declared.name, str(declared.default), declared.meaning)
        console.print(table)
