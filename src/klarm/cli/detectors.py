"""`klarm detectors`: lists the detectors and their settings."""

from __future__ import annotations

import inspect

import click
from rich.text import Text

from klarm.detectors import CATALOGUE, Detector, known_detectors
from klarm.metrics import METRICS
from klarm.settings import did_you_mean, settings_of
from klarm.terminal import rich_console


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    names = [kind.name for kind in known_detectors()]
    return [name for name in names if name.startswith(incomplete)]


@click.command()
@click.argument("name", required=False, shell_complete=_complete)
def detectors(name: str | None) -> None:
    """List the detectors with their settings and defaults, or explain the detector NAME."""
    if name is None:
        for kind in known_detectors():
            _show(kind)
        return
    known = {kind.name: kind for kind in known_detectors()}
    found = known.get(name)
    if found is None:
        hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
        raise click.ClickException(f"there is no detector {name}{hint}")
    _show(found, whole=True)


def _show(kind: type[Detector], *, whole: bool = False) -> None:
    from rich.table import Table

    console = rich_console()
    first, *rest = inspect.cleandoc(kind.__doc__ or "").split("\n\n")
    console.print(Text.assemble((kind.name, "bold"), f"  {' '.join(first.split())}"))
    if whole:
        # Doctests are left out.
        for paragraph in rest:
            if not paragraph.startswith(">>>"):
                console.print(Text(f"\n{' '.join(paragraph.split())}"))
        console.print()
    if kind.watches_all:
        console.print("  watches every metric", highlight=False)
    else:
        for name in kind.watches if whole else kind.watches[:1]:
            meaning = f": {METRICS[name].meaning}" if name in METRICS else ""
            console.print(f"  watches {name}{meaning}", highlight=False)
    if whole:
        console.print(f"  incidents are on the signal {kind.signal}", highlight=False)
        console.print(Text(f"\nSettings, in klarm.yaml under {kind.name}:", "bold"))
    table = Table(box=None, padding=(0, 2), show_header=False)
    table.add_column(no_wrap=True, style="cyan")
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for declared in settings_of(kind).values():
        table.add_row(declared.name, str(declared.default), declared.meaning)
    console.print(table)
    if whole and kind in CATALOGUE:
        console.print(Text(f"\nHow far to trust it: docs/detectors/{kind.name}.md", "dim"))
