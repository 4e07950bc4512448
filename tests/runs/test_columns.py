"""Columns hold the rows that a direct reading of the journal finds, however they are read.

It holds for columns.py, state.py, known.py and extremes.py together.
"""

from __future__ import annotations

import math
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from batches import FOLDER, JOURNAL, RUN, Batch, event, surviving_rows, written
from hypothesis import given
from hypothesis import strategies as st

from klarm.journal import Checkpoint, Fold, Resume, Step
from klarm.runs import Columns, RunState, has_value, read_run, store_of
from klarm.runs.columns import MAX_STEP, table_of
from made_alerts import made_alert

NAMES = ("kl", "reward", "<b>")
VALUES = st.one_of(
    st.floats(-10, 10), st.sampled_from(["NaN", "Infinity", "-Infinity", "words", True, None])
)
STEPS = st.builds(
    Step,
    st.integers(0, 9),
    st.integers(0, 9).map(float),
    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3),
)
ALERT = made_alert({"kl": 9.0})
BATCHES = st.lists(
    st.one_of(
        st.tuples(STEPS, st.lists(st.just(ALERT), max_size=1)),
        st.tuples(st.builds(Resume, st.integers(0, 9), st.just(1.5)), st.just([])),
        st.tuples(
            st.builds(Checkpoint, st.integers(0, 9), st.just(1.5), st.just("p")), st.just([])
        ),
        st.tuples(STEPS, st.just([event("opened", 1, 3, id="kaaaaaaa")])),
    ),
    max_size=40,
)


def columns_of(folder: Path = FOLDER, wanted: tuple[str, ...] | None = None) -> Columns:
    """Return the rows of a journal."""
    view = read_run(folder)
    columns = Columns(view.store, view.run, view.state.rollbacks, wanted)
    while columns.read(view.state.read_to):
        pass
    return columns


def rows_in(columns: Columns) -> list[tuple[int, dict[str, str]]]:
    return [
        (step, {n: repr(v) for n, v in zip(NAMES, cells, strict=True) if v is not None})
        for step, _, cells in columns.rows(NAMES)
    ]


@given(BATCHES, st.integers(1, 2000), st.booleans())
def test_columns_and_state_are_those_of_a_direct_reading(
    batches: list[Batch], piece: int, taken_up: bool
) -> None:
    """In pieces of any size, with restarts between them."""
    written([(RUN, []), *batches])
    store, run = store_of(FOLDER)
    size = JOURNAL.stat().st_size
    state = RunState(store, run)
    before = -1
    while state.read_to != before:
        before = state.read_to
        state.read(piece)
        if taken_up:
            data = state.saved(size)
            state = RunState(store, run)
            assert state.restore(data, size)
    expected = [
        (row[0], {name: repr(float(value)) for name, value in row[1].items()})
        for row in surviving_rows(JOURNAL, NAMES)
        if isinstance(row, tuple)
    ]
    assert rows_in(columns_of()) == expected
    fold = Fold(JOURNAL)
    fold.update()
    assert state.fold.saved() == fold.saved()
    assert state.copy().fold.saved() == fold.saved()
    undone = [back for back in state.rollbacks if back.last is not None]
    assert [(back.place.step, back.last) for back in undone] == fold.rollbacks
    assert len(state.alerts) == sum(ALERT in also for _, also in batches)


@given(BATCHES, st.integers(0, 9), st.integers(0, 9))
def test_the_rows_around_steps_are_among_those_read(
    batches: list[Batch], first: int, last: int
) -> None:
    """Whichever part of the journal is read for them."""
    written([(RUN, []), *batches])
    view = read_run(FOLDER)
    part = view.columns_around(first, last, NAMES)
    wanted = [row for row in rows_in(columns_of()) if first <= row[0] <= last]
    assert [row for row in rows_in(part) if first <= row[0] <= last] == wanted


def test_only_a_part_of_a_long_journal_is_read_for_a_few_steps() -> None:
    """With the rows before and after them, also after rollbacks."""
    steps = [(Step(step, float(step), {"kl": step / 7, "x": 1.0}), []) for step in range(60_000)]
    again = [(Step(step, float(step), {"kl": 0.5, "x": 1.0}), []) for step in range(20_000, 40_000)]
    written([(RUN, []), *steps, (Resume(20_000, 1.5), []), *again])
    view = read_run(FOLDER)
    part = view.columns_around(30_000, 30_100, ["kl"])
    assert part.count < 30_000
    found = {step: cells[0] for step, _, cells in part.rows(["kl"])}
    assert all(found[step] == 0.5 for step in range(29_900, 30_121))
    assert part.names() == ["kl"]
    early = view.columns_around(100, 200, ["kl"])
    assert early.count < 30_000
    assert [step for step, _, _ in early.rows([])][:3] == [0, 1, 2]


def test_only_wanted_columns_are_kept() -> None:
    """Of a run that does not fit into memory."""
    written([(RUN, []), *[(Step(s, 1.0, {"kl": 0.1, "x": 1.0}), []) for s in range(9)]])
    assert columns_of(wanted=("kl",)).names() == ["kl"]
    assert columns_of().names() == ["kl", "x"]


def test_the_extent_of_a_column() -> None:
    """Of its finite values; where it was logged, and its last value."""
    values = [0.5, "NaN", 2.0, None, -1.0]
    rows = [
        (Step(step, 10.0 + step, {"a": 1.0} if value is None else {"kl": value}), [])
        for step, value in enumerate(values)
    ]
    written([(RUN, []), *rows, (Step(5, 15.0, {"a": 2.0}), [])])
    found = columns_of().extent("kl")
    assert found is not None
    assert (found.values, found.non_finite, found.low, found.high) == (4, 1, -1.0, 2.0)
    assert (found.first_step, found.last_step, found.last, found.last_time) == (0, 4, -1.0, 14.0)
    assert columns_of().extent("nope") is None


def test_a_logged_nan_is_not_a_missing_value() -> None:
    """They differ in bits."""
    logged = [1, "NaN", None, math.inf, "words"]
    _, table = table_of([{"kl": value} for value in logged])
    assert has_value(table[0]).tolist() == [True, True, False, True, False]
    assert math.isnan(table[0][1])
    assert table[0][3] == math.inf


def test_odd_steps_and_times_are_kept_within_what_fits() -> None:
    """Steps beyond 64 bits, a time that is no time, and a clock that goes back."""
    rows = [(1, 5.0), (2, 1e308), (3, 4.0), (10**30, 6.0)]
    written([(RUN, []), *[(Step(step, time, {"kl": 0.1}), []) for step, time in rows]])
    columns = columns_of()
    assert columns.steps().tolist() == [1, 2, 3, MAX_STEP]
    assert columns.times().tolist() == [5.0, 5.0, 4.0, 6.0]
    assert (columns.rises("step"), columns.rises("time")) == (True, False)
    assert columns.points("kl", "time").x.tolist() == [4.0, 5.0, 5.0, 6.0]


@pytest.mark.parametrize("expected_rows", [0, 3, 5000])
def test_columns_grow_with_the_journal(expected_rows: int) -> None:
    """Earlier rows stay, whatever room there was for later ones."""
    rows = [(Step(step, float(step), {"kl": step / 3}), []) for step in range(3000)]
    written([(RUN, []), *rows])
    view = read_run(FOLDER)
    columns = Columns(view.store, view.run, [], None, expected_rows)
    for end in np.linspace(0, view.state.read_to, 20).astype(int).tolist():
        while columns.read(end):
            pass
    columns.read(view.state.read_to)
    assert columns.of("kl").tolist() == [step / 3 for step in range(3000)]


def test_others_may_look_while_one_reads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they get fits together, whichever rows it has."""
    written([(RUN, []), *[(Step(step, float(step), {"kl": 0.1}), []) for step in range(8000)]])
    view = read_run(FOLDER)
    monkeypatch.setattr("klarm.runs.columns._SLICE_BYTES", 1000)
    columns = Columns(view.store, view.run, [])
    problems: list[str] = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            points = columns.points("kl")
            if len(points.x) != len(points.y):
                problems.append(f"{len(points.x)} x and {len(points.y)} y")

    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    looking = threading.Thread(target=look)
    looking.start()
    try:
        while columns.read(view.state.read_to):
            pass
    finally:
        is_over.set()
        looking.join()
        sys.setswitchinterval(switch_interval)
    assert problems == []
    assert len(columns.points("kl").x) == 8000
