"""klarm's own journals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from klarm.journal import Bound, Checkpoint, Resume, Started, Step, read_journal
from klarm.sources.row import LogRow

# What a journal tells beside its steps.
Told = Resume | Started | Bound | Checkpoint


def read(path: Path, say: Callable[[str], None]) -> Iterator[LogRow | Told]:
    """Yield the steps of a journal, and what else shaped what was said of them."""

    def passed_over(number: int) -> None:
        say(f"{path} line {number} is torn; passed over")

    for record in read_journal(path, passed_over):
        if isinstance(record, Step):
            yield LogRow(record.step, record.metrics)
        elif isinstance(record, Told):
            yield record
