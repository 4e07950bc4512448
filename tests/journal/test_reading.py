"""Reading journals whose first line is damaged, and files that are none."""

from __future__ import annotations

from pathlib import Path

from batches import JOURNAL, RUN, written

from klarm.journal.checksum import sealed
from klarm.journal.reading import head_of, is_journal
from klarm.journal.records import Started, Step, encode
from klarm.types import Command

STEP = Step(3, 1.5, {"kl": 0.5})
LATER = Started("other", 7.5, "0.2.0", "node", {})


def test_a_damaged_first_line_does_not_cost_the_run() -> None:
    """The run is then named after its folder, and began when its next process did, or at 0."""
    content = written([(RUN, []), (STEP, []), (LATER, []), (STEP, [])])
    assert head_of(JOURNAL) == RUN
    JOURNAL.write_bytes(content.replace(b"node", b"no\0e", 1))
    assert is_journal(JOURNAL)
    head = head_of(JOURNAL)
    assert head is not None
    assert (head.run, head.started) == ("a", 7.5)
    JOURNAL.write_bytes(content.replace(b"node", b"no\0e"))
    head = head_of(JOURNAL)
    assert head is not None
    assert (head.run, head.started, head.config) == ("a", 0.0, {})


def test_an_empty_first_line_does_not_cost_the_run() -> None:
    """Whether it stands before the run line or in its place."""
    content = written([(RUN, []), (STEP, []), (LATER, []), (STEP, [])])
    for wiped in (b"\n" + content, b" " * 9 + content[content.index(b"\n") :]):
        JOURNAL.write_bytes(wiped)
        assert is_journal(JOURNAL)
        head = head_of(JOURNAL)
        assert head is not None
        assert head.run == "a"


def test_other_files_are_no_journals() -> None:
    """Neither logs of trainers nor the other files that klarm keeps beside a journal."""
    path = Path("a.jsonl")
    command = Command(command="ack", key="1", time=1.5, by="ada")
    for content in (
        b"",
        b'{"step": 1, "kl": 0.5}\n',
        b"step,kl\n1,0.5\n",
        encode(STEP) + b"\n",
        b"torn\n" + sealed(encode(command)),
        b"\0" * 5_000_000,
    ):
        path.write_bytes(content)
        assert not is_journal(path)
        assert head_of(path) is None
    assert not is_journal("nowhere")
