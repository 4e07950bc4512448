"""The tables of the docs that follow from the catalogue of detectors; `make approve` writes them.

Each stands between `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from fewest_rows import fewest_rows
from klarm.detectors import CATALOGUE, Detector

DOCS = Path(__file__).parents[1] / "docs"
_TABLE = re.compile(r"(?s)(<!-- table: ([\w ]+) -->\n).*?(<!-- end of table -->)")


def watched() -> str:
    """Return what every detector notices, and which metric it reads."""
    rows = ((link(kind), notices(kind), reads(kind), f"`{kind.signal}`") for kind in CATALOGUE)
    return table(("detector", "what it does", "reads", "signal"), rows)


def signals() -> str:
    """Return the detectors of every signal."""
    found: dict[str, list[str]] = {}
    for kind in CATALOGUE:
        found.setdefault(kind.signal, []).append(kind.name)
    rows = ((f"`{signal}`", ", ".join(names)) for signal, names in found.items())
    return table(("signal", "its detectors"), rows)


def first_alerts() -> str:
    """Return the first row at which every detector can raise an alert, the earliest first."""
    fewest = {kind: fewest_rows(kind) for kind in CATALOGUE}
    kinds = sorted(CATALOGUE, key=lambda kind: fewest[kind])
    rows = ((link(kind), reads(kind), str(fewest[kind])) for kind in kinds)
    return table(("detector", "reads", "first alert at row"), rows)


TABLES = {"detectors": watched, "signals": signals, "first alerts": first_alerts}


def pages() -> list[Path]:
    """Return the pages with such tables."""
    return [path for path in sorted(DOCS.rglob("*.md")) if _TABLE.search(path.read_text())]


def with_tables(text: str) -> str:
    """Return a page with its tables as they must be."""
    return _TABLE.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", text)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    lines = [f"| {' | '.join(cells)} |" for cells in [head, *rows]]
    lines.insert(1, f"|{'---|' * len(head)}")
    return "".join(f"{line}\n" for line in lines)


def link(kind: type[Detector]) -> str:
    """Return a link to the page of a detector."""
    return f"[{kind.name}](detectors/{kind.name}.md)"


def notices(kind: type[Detector]) -> str:
    """Return the first sentence about a detector."""
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def reads(kind: type[Detector]) -> str:
    """Return the metrics each of which is enough for a detector."""
    return "all metrics" if kind.watches_all else ", ".join(f"`{name}`" for name in kind.reads)
