"""klarm's own journals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from klarm.journal import Resume, Started, Step, read_journal
from klarm.sources.row import LogRow


def read(path: Path, say: Callable[[str], None]) -> Iterator[LogRow | Resume | Started]:
    """Yield the steps of a journal, where training went back, and where a process took it up."""

    def passed_over(number: int) -> None:
        say(f"{path} line {number} is torn; passed over")

    for record in read_journal(path, passed_over):
        if isinstance(record, Step):
            yield LogRow(record.step, record.metrics)
        elif isinstance(record, Resume | Started):
            yield record
