"""Journals for the tests: batches of records, as a monitor writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from example_events import example_event
from klarm.journal.file import FileJournal
from klarm.journal.lines import Stored
from klarm.journal.reading import read_journal
from klarm.journal.records import Bound, Checkpoint, Finish, Record, Resume, Started, Step
from klarm.journal.rows import LateRow, Row, history
from klarm.types import Blip, Command, Event, EventKind
from made_alerts import made_alert

FOLDER = Path("runs/a")
JOURNAL = FOLDER / "journal.jsonl"
RUN = Started("a", 1763200000.1, "0.2.0", "node", {"kl_explosion": {}})
ALERT = made_alert({"kl": 9.0})
BLIP = Blip("kl", "warning", 3, 4, ["kl_explosion"], 2.0)

Batch = tuple[Record, Sequence[Record]]


def event(kind: EventKind, number: int, step: int, reason: str = "", **more: Any) -> Event:
    return example_event(kind, incident=number, step=step, started=step, reason=reason, **more)


FOLLOWING = st.lists(
    st.sampled_from([ALERT, BLIP, event("opened", 1, 3, id="kaaaaaaa")]), max_size=3
)
BATCHES = st.lists(
    st.one_of(
        st.tuples(
            st.builds(Step, st.integers(0, 9), st.just(1.5), st.just({"kl": 0.5})), FOLLOWING
        ),
        st.tuples(st.builds(Resume, st.integers(0, 9), st.just(1.5)), FOLLOWING),
        st.tuples(st.just(Finish(1.5, 7)), FOLLOWING),
        st.tuples(st.just(Command(command="ack", key="1", time=1.5, by="ada")), FOLLOWING),
        st.tuples(
            st.sampled_from([Checkpoint(3, 1.5, "out/3"), Bound({"kl": "k"}), RUN]), st.just([])
        ),
    ),
    max_size=6,
)


def written(batches: Sequence[Batch]) -> bytes:
    """Write a journal and return its bytes: one that is there already is replaced."""
    JOURNAL.unlink(missing_ok=True)
    journal = FileJournal(FOLDER, print)
    for head, also in batches:
        if isinstance(head, Step):
            journal.step(head.step, head.time, head.metrics, also)
        else:
            journal.record(head, also)
    journal.close(1.0)
    return JOURNAL.read_bytes()


def surviving_rows(
    journal: Stored, metrics: Collection[str], before: int | None = None
) -> Iterator[Row | LateRow | Command]:
    """Yield the calls of `log` that were not rolled back, and the commands between them."""
    for entry in history(journal, metrics, before):
        if not isinstance(entry, Resume):
            yield entry


def records() -> list[Record]:
    return list(read_journal(JOURNAL))
