"""The fold: what a journal amounts to, in one reading or in many, in little memory.

Covers fold.py, totals.py and incident.py, also that counting steps, reading rows and looking back
agree on rollbacks.py, and that steps.py passes on every step.
"""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from batches import ALERT, BATCHES, FOLDER, JOURNAL, RUN, Batch, event, surviving_rows, written
from hypothesis import given
from hypothesis import strategies as st

from klarm.journal.checksum import sealed
from klarm.journal.file import FileJournal, MemoryJournal
from klarm.journal.fold import Fold, SavedFold
from klarm.journal.records import (
    Bound,
    Checkpoint,
    Finish,
    Record,
    Resume,
    Started,
    Step,
    decoded,
    encode_step,
)
from klarm.journal.search import steps_back
from klarm.journal.totals import Rollback
from klarm.metrics import Origin
from klarm.types import Command, EventKind


def step(number: int, *also: Record) -> Batch:
    return Step(number, 1.5, {"kl": float(number)}), also


def folded(*batches: Batch) -> Fold:
    written([(RUN, []), *batches])
    fold = Fold(JOURNAL)
    fold.update()
    return fold


def test_an_incident_is_what_its_events_say() -> None:
    """From its opening to its last event, by id."""
    fold = folded(
        step(1, event("opened", 1, 1, id="kaaaaaaa")),
        step(2, event("opened", 2, 2, id="kbbbbbbb", signal="loss")),
        step(3, event("resolved", 1, 3, "recovered", id="kaaaaaaa")),
    )
    first, second = fold.incidents.values()
    assert (first.id, first.number, first.signal, first.state) == ("kaaaaaaa", 1, "kl", "resolved")
    assert (first.opened.step, first.last.step, first.recovered) == (1, 3, True)
    assert (second.state, second.is_open, second.recovered) == ("open", True, False)
    assert first.as_dict() == {
        "id": "kaaaaaaa",
        "incident": 1,
        "signal": "kl",
        "severity": "warning",
        "state": "resolved",
        "reason": "recovered",
        "started": 3,
        "opened": 1,
        "resolved": 3,
        "detectors": ["kl_explosion"],
        "message": "KL is high.",
        "recommendation": "Look.",
    }


@pytest.mark.parametrize(
    ("kind", "reason", "state", "is_open", "recovered"),
    [
        ("escalated", "severity_raised", "open", True, False),
        ("settled", "settled", "settled", True, False),
        ("reopened", "returned", "open", True, False),
        ("ended", "crashed", "ended", True, False),
        ("resolved", "recovered", "resolved", False, True),
        ("resolved", "closed", "resolved", False, False),
        ("resolved", "rolled_back", "resolved", False, False),
    ],
)
def test_the_last_event_gives_the_state(
    kind: EventKind, reason: str, state: str, *, is_open: bool, recovered: bool
) -> None:
    """An incident that the run ended with is not resolved."""
    (incident,) = folded(
        step(1, event("opened", 1, 1, id="ka")), step(2, event(kind, 1, 2, reason, id="ka"))
    ).incidents.values()
    assert (incident.state, incident.reason) == (state, reason)
    assert (incident.is_open, incident.recovered) == (is_open, recovered)


def test_an_incident_whose_opening_is_lost_is_known_by_what_followed() -> None:
    """A damaged line does not hide it."""
    (incident,) = folded(step(2, event("settled", 1, 2, id="ka"))).incidents.values()
    assert (incident.opened.event, incident.state) == ("settled", "settled")


def test_a_number_that_a_damaged_line_may_hold_is_not_given_again() -> None:
    """Otherwise the next event would pass for the one that was sent."""
    content = written(
        [
            (RUN, []),
            (Step(1, 1.0, {}), [event("opened", 1, 1, id="ka", seq=1)]),
            (Step(2, 2.0, {}), [event("escalated", 1, 2, id="ka", seq=2)]),
        ]
    )
    fold = Fold(JOURNAL)
    fold.update()
    assert (fold.next_seq("ka"), fold.next_seq("kb")) == (3, 1)
    JOURNAL.write_bytes(content.replace(b"escalated", b"esca1ated"))
    fold = Fold(JOURNAL)
    fold.update()
    assert fold.next_seq("ka") > 2
    again = Fold(JOURNAL)
    again.restore(fold.saved())
    assert again.next_seq("ka") == fold.next_seq("ka")


def test_a_rollback_undoes_steps_and_checkpoints() -> None:
    """Those at or after its step; a checkpoint of that very step is where training goes on from."""
    fold = folded(
        *(step(number) for number in range(1, 9)),
        (Checkpoint(4, 1.5, "out/4"), ()),
        (Checkpoint(8, 1.5, "out/8"), ()),
        (Resume(5, 2.5), ()),
        step(5),
        step(5, ALERT),
        step(6),
        (Resume(7, 3.5), ()),
    )
    assert (fold.first_step, fold.last_step, fold.steps, fold.rolled_back) == (1, 6, 6, 4)
    assert fold.rollbacks == [Rollback(5, 8)]
    assert fold.checkpoints == [(4, "out/4")]
    assert [found.step for found in steps_back(JOURNAL)] == [6, 5, 5, 4, 3, 2, 1]


def test_a_run_that_starts_over_has_no_steps() -> None:
    """Until it logs one."""
    fold = folded(step(3), step(4), (Resume(0, 2.5), ()))
    assert (fold.first_step, fold.last_step, fold.steps, fold.rolled_back) == (3, None, 0, 2)


def test_the_commands_that_people_gave_are_known() -> None:
    """A command is applied once; an acknowledgement has a name."""
    ack = Command(command="ack", key="c1", time=1.5, by="ada", incident="ka", step=2)
    fold = folded(step(1, event("opened", 1, 1, id="ka")), (ack, ()), (ack, ()))
    assert fold.commands == {"c1"}
    assert fold.incidents["ka"].acknowledged_by == ["ada"]
    back = Command(command="ack_off", key="c2", time=2.5, by="bob", incident="ka", step=3)
    fold = folded(step(1, event("opened", 1, 1, id="ka")), (ack, ()), (back, ()))
    assert fold.incidents["ka"].acknowledged_by == []


def test_the_last_process_ended_well_or_it_did_not() -> None:
    """A new one has not ended yet."""
    assert not folded(step(1)).finished
    assert folded(step(1), (Finish(1.5, 1), ())).finished
    assert not folded(step(1), (Finish(1.5, 1), ()), (RUN, ())).finished


def test_the_head_is_the_first_run_line() -> None:
    """The run has its name, and began when it says."""
    fold = folded((Bound({"kl": "objective/kl"}), ()), (Started("b", 9.0, "", "", {}), ()))
    assert (fold.head, fold.run, fold.began) == (RUN, "a", RUN.started)
    assert fold.origins == {"kl": Origin("objective/kl")}
    assert Fold(Path("nowhere/journal.jsonl")).update() == []


def test_damage_is_reported_with_its_line() -> None:
    """The fold goes on with the rest."""
    content = written([(RUN, []), step(1), step(2)])
    JOURNAL.write_bytes(content.replace(b'"step":1', b'"step":7') + b'{"type":"checkpoint"}\n')
    damage: list[tuple[int, str]] = []
    fold = Fold(JOURNAL, lambda *found: damage.append(found))
    fold.update()
    assert (fold.steps, damage) == (1, [(2, "damaged"), (4, "not by klarm")])


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.integers(1, 3)),
        st.tuples(st.just("again"), st.just(0)),
        st.tuples(st.just("back"), st.integers(0, 6)),
    ),
    max_size=20,
)


def journeys(moves: list[tuple[str, int]]) -> list[Batch]:
    """Return the batches of a run that goes forward and back."""
    at, batches = 0, [step(0)]
    for kind, by in moves:
        if kind == "back":
            at = max(0, at - by)
            batches.append((Resume(at, 1.5), ()))
        else:
            at += by
        batches.append(step(at, event("escalated", 1, at, id="ka")))
    return batches


@given(MOVES, st.data())
def test_reading_piece_by_piece_is_reading_at_once(
    moves: list[tuple[str, int]], data: st.DataObject
) -> None:
    """Wherever the journal was cut off when it was looked at."""
    content = written([(RUN, []), *journeys(moves)])
    growing, events = Fold(JOURNAL), []
    for cut in sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=5))):
        JOURNAL.write_bytes(content[:cut])
        events += growing.update()
    JOURNAL.write_bytes(content)
    events += growing.update()
    once = Fold(JOURNAL)
    assert once.update() == events
    hidden = ("_verifier", "_read_to")
    assert {k: v for k, v in vars(growing).items() if k not in hidden} == {
        k: v for k, v in vars(once).items() if k not in hidden
    }


@given(MOVES)
def test_a_rollback_undoes_the_same_wherever_it_is_asked(moves: list[tuple[str, int]]) -> None:
    """Counting steps, reading rows and looking back agree, on disk and in memory."""
    memory = MemoryJournal()
    for head, also in journeys(moves):
        if isinstance(head, Step):
            memory.step(head.step, head.time, head.metrics, also)
        else:
            memory.record(head, also)
    written([(RUN, []), *journeys(moves)])
    for stored in (JOURNAL, memory.stored()):
        fold = Fold(stored)
        fold.update()
        rows = [row[0] for row in surviving_rows(stored, ["kl"]) if not isinstance(row, Command)]
        assert rows == sorted(rows)
        assert rows == [found.step for found in steps_back(stored)][::-1]
        assert fold.steps == len(set(rows))
        assert (fold.first_step, fold.last_step) == (rows[0], rows[-1])


def test_a_long_run_is_folded_in_little_memory() -> None:
    """Rows are never held: a dict alone takes ten times as many bytes as there are for each."""
    steps = 40_000
    journal = FileJournal(Path("runs/a"), print)
    journal.record(RUN)
    for number in range(steps):
        journal.step(number, 1.5, {"kl": 0.5, "reward": 1.25, "loss": 0.125})
        if number == steps // 2:
            journal.record(Resume(number - 100, 1.5))
    journal.close(5.0)
    tracemalloc.start()
    fold = Fold(JOURNAL)
    fold.update()
    count = sum(1 for _ in surviving_rows(JOURNAL, ["kl"]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == fold.steps == steps - 101
    assert peak < 20 * steps


# Prints how many steps a journal has, by the fold and by its rows, and the peak of memory in kB.
FOLDING = """
import sys
from pathlib import Path
from klarm.journal import Fold, Resume, history
path = Path(sys.argv[1])
fold = Fold(path)
fold.update()
rows = sum(not isinstance(entry, Resume) for entry in history(path, ["kl"]))
(peak,) = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(fold.steps, rows, peak)
"""


def write_long(steps: int) -> int:
    """Write a journal with a checkpoint and a rollback of 101 steps in 10,000; return what counts.

    Many steps are appended at once, which is faster; the lines are as a run writes them.
    """
    JOURNAL.unlink(missing_ok=True)
    journal = FileJournal(FOLDER, print)
    journal.record(RUN)
    lines: list[bytes] = []
    for number in range(steps):
        values = {"kl": 0.5, "reward": 1.25, "loss": 0.125}
        lines.append(sealed(encode_step(number, 1.5, values)))
        if len(lines) == 10_000:
            journal._append(b"".join(lines))
            lines.clear()
            journal.record(Checkpoint(number - 200, 1.5, "out"))
            journal.record(Resume(number - 100, 1.5))
    journal.close(60.0)
    return steps - 101 * (steps // 10_000)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it says how much memory it is")
def test_the_memory_of_a_process_does_not_grow_with_the_run() -> None:
    """Ten times the steps, at most 4 MB more; the numbers of the steps alone would take 6."""
    peaks: dict[int, int] = {}
    for steps in (20_000, 200_000):
        count = write_long(steps)
        done = subprocess.run(
            [sys.executable, "-c", FOLDING, JOURNAL], capture_output=True, text=True, check=True
        )
        counted, rows, peak = map(int, done.stdout.split())
        assert counted == rows == count
        peaks[steps] = peak
    assert peaks[200_000] < peaks[20_000] + 4_096


@given(BATCHES, st.integers(0, 400))
def test_a_saved_fold_goes_on_where_it_was(batches: list[Batch], at_most: int) -> None:
    """Stored and taken up by another process after any number of bytes."""
    written([(RUN, []), *batches])
    whole = Fold(JOURNAL)
    events = whole.update()
    first = Fold(JOURNAL)
    found = first.update(at_most)
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(first.saved()), type=SavedFold)
    second = Fold(JOURNAL)
    second.restore(stored)
    assert found + second.update() == events
    assert second.saved() == whole.saved()


@given(BATCHES)
def test_whoever_listens_is_given_every_record(batches: list[Batch]) -> None:
    """And the fold comes to the same as without a listener."""
    data = written([(RUN, []), *batches])
    alone, heard = Fold(JOURNAL), list[object]()
    alone.update()
    listened = Fold(
        JOURNAL,
        on_record=lambda record, begin, end: heard.append(data[begin : end - 1]),
        on_steps=lambda steps: heard.extend((step.step, step.metrics) for step in steps),
    )
    listened.update()
    assert listened.saved() == alone.saved()
    records = (decoded(line) for line in JOURNAL.read_bytes().splitlines())
    assert heard == [
        (record.step, record.metrics) if isinstance(record, Step) else line
        for record, line in zip(records, JOURNAL.read_bytes().splitlines(), strict=True)
    ]
