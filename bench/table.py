"""A table of measurements: klarm beside a peer, against targets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table


@dataclass
class Row:
    """One line of the table: a quantity on both sides, its ratio, and the target if it has one."""

    what: str
    unit: str
    klarm: float
    rlwatch: float | None = None
    ratio: float | None = None
    target: str = ""
    met: bool | None = None
    interval: tuple[float, float] | None = None  # of the ratio, 95 %


def write(
    rows: Sequence[Row], machine: Mapping[str, object], path: Path, peer: str = "rlwatch"
) -> None:
    """Write the rows to a JSON file, with the machine they were measured on."""
    named = [
        {peer.lower() if name == "rlwatch" else name: value for name, value in asdict(row).items()}
        for row in rows
    ]
    record = {**machine, "rows": named}
    path.write_text(json.dumps(record, indent=2) + "\n")


def show(rows: Sequence[Row], machine: Mapping[str, object], peer: str = "rlwatch") -> None:
    """Print the table, and how many targets are met."""
    caption = ", ".join(f"{name} {value}" for name, value in machine.items())
    table = Table(box=SIMPLE, caption=caption)
    table.add_column("what", no_wrap=True)
    for heading in ("klarm", peer, "ratio", "target", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        ours = f"{number(row.klarm)} {row.unit}"
        peers = "" if row.rlwatch is None else f"{number(row.rlwatch)} {row.unit}"
        ratio = "" if row.ratio is None else f"{number(row.ratio)}×"
        if row.interval is not None:
            ratio += " ({:.2f} to {:.2f})".format(*row.interval)
        verdict = {None: "", True: "ok", False: "[bold red]MISS"}[row.met]
        table.add_row(row.what, ours, peers, ratio, row.target, verdict)
    Console(width=120).print(table)  # also when it goes to a file
    verdicts = [row.met for row in rows if row.met is not None]
    print(f"{sum(verdicts)} of {len(verdicts)} targets met")


def number(value: float) -> str:
    """Return a value as text: with three digits, or all digits before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cost(what: str, unit: str, ours: float, peers: float, times: float | None = None) -> Row:
    """Return the row of a cost that should be lower than the peer's by a factor."""
    row = Row(what, unit, ours, peers, peers / ours)
    if times is not None:
        row.target, row.met = f"≥ {times:g}×", row.ratio >= times
    return row
