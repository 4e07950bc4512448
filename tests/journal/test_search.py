"""Looking things up in a journal from its end."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from example_events import example_event
from klarm.journal.checksum import sealed
from klarm.journal.file import read_journal
from klarm.journal.records import Step, encode
from klarm.journal.search import opening_of, place_of, recorded_events, steps_back, times_of

# About as long as a line usually is, and longer than what is read at once.
LENGTHS = st.lists(st.sampled_from([0, 90, 20_000, 32_700, 70_000, 400_000]), max_size=12)


def step_line(step: int, filler: int) -> bytes:
    return sealed(msgspec.json.encode(Step(step, float(step), {"kl": "x" * filler})))


def opened(incident: int, step: int) -> bytes:
    return sealed(encode(example_event(incident=incident, id=f"k{incident:07}", step=step)))


@given(LENGTHS)
def test_steps_come_back_in_order_however_long_their_lines_are(lengths: list[int]) -> None:
    """Read from the end as from the beginning, with none lost where two pieces meet."""
    journal = Path("journal.jsonl")
    journal.write_bytes(b"".join(step_line(n, length) for n, length in enumerate(lengths)))
    assert list(steps_back(journal))[::-1] == list(read_journal(journal))
    for step in range(len(lengths)):
        place = place_of(journal, step)
        assert place is not None
        assert place.time == step
        assert next(steps_back(journal, place.end)).step == step


def test_the_opening_of_an_incident_is_found_among_those_of_others() -> None:
    """Number 1 is not number 11, whichever comes first."""
    journal = Path("journal.jsonl")
    lines = [opened(1, 10), step_line(11, 50_000), opened(11, 20), step_line(21, 50_000)]
    journal.write_bytes(b"".join(lines))
    assert [e and e.step for e in (opening_of(journal, n, f"k{n:07}") for n in (1, 11, 2))] == [
        10,
        20,
        None,
    ]
    assert opening_of(journal, 1, "k0000011") is None


def test_a_line_that_cannot_be_read_is_passed_over() -> None:
    """However deep it is nested."""
    journal = Path("journal.jsonl")
    deep = sealed(b'{"type":"event","event":"opened","incident":1,"x":' + b"[" * 100_000 + b"}")
    journal.write_bytes(opened(1, 10) + deep)
    found = opening_of(journal, 1, "k0000001")
    assert found is not None
    assert found.step == 10


def test_a_step_that_was_logged_twice_is_where_it_was_last() -> None:
    """The earlier line was rolled back; a torn one at the end is none."""
    journal = Path("journal.jsonl")
    first, last = step_line(5, 0), step_line(5, 10)
    journal.write_bytes(first + step_line(6, 0) + last + step_line(5, 0)[:-1])
    place = place_of(journal, 5)
    assert place is not None
    assert place.end == len(first + step_line(6, 0) + last)
    assert place_of(journal, 7) is None


def test_the_times_of_several_steps_are_those_of_their_last_lines() -> None:
    """Up to an offset; a step that was not logged is left out."""
    journal = Path("journal.jsonl")
    lines = [
        sealed(msgspec.json.encode(Step(step, time, {})))
        for step, time in ((5, 1.0), (6, 2.0), (5, 3.0), (55, 4.0), (6, 5.0))
    ]
    journal.write_bytes(b"".join(lines))
    assert times_of(journal, [5, 6, 7]) == {5: 3.0, 6: 5.0}
    assert times_of(journal, [5, 6], len(b"".join(lines[:4]))) == {5: 3.0, 6: 2.0}
    assert times_of(journal, []) == {}


def test_a_search_through_a_long_journal_needs_little_memory() -> None:
    """The allocator keeps what the thread of a channel needs at its peak for the whole run."""
    journal = Path("journal.jsonl")
    journal.write_bytes(opened(1, 0) + b"".join(step_line(step, 200) for step in range(8_000)))
    assert journal.stat().st_size > 2**20
    tracemalloc.start()
    assert opening_of(journal, 1, "k0000001") is not None
    assert len(list(recorded_events(journal))) == 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**18
