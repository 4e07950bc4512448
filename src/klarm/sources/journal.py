"""klarm's own journals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from klarm.journal import Bound, Resume, Started, Step, read_journal
from klarm.sources.row import LogRow


def read(path: Path, say: Callable[[str], None]) -> Iterator[LogRow | Resume | Started | Bound]:
    """Yield the steps of a journal, and what else shaped what was said of them."""

    def passed_over(number: int) -> None:
        say(f"{path} line {number} is torn; passed over")

    for record in read_journal(path, passed_over):
        if isinstance(record, Step):
            yield LogRow(record.step, record.metrics)
        elif isinstance(record, Resume | Started | Bound):
            yield record
