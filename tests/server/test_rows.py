"""Rows in the index are those that a direct reading of the journal finds, however it is read.

It holds for rows.py, run_index.py, blocks.py, packing.py and migrations.py together.
"""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path

from batches import FOLDER, JOURNAL, RUN, Batch, event, written
from hypothesis import given
from hypothesis import strategies as st
from serving_runs import database

from klarm.journal import Checkpoint, Fold, Resume, Step, surviving_rows
from klarm.server.blocks import RunBlocks
from klarm.server.packing import columns, has_value, pack_floats, unpack_floats
from klarm.server.run_index import RunIndex
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


def stored_rows(made: sqlite3.Connection) -> list[tuple[int, dict[str, str]]]:
    blocks = RunBlocks(made, 1, "step")
    names = made.execute("SELECT name, metric FROM metrics").fetchall()
    rows: list[tuple[int, dict[str, str]]] = []
    for block in blocks.blocks:
        found = [(step, dict[str, str]()) for step in blocks.steps(block.first_row).tolist()]
        for name, metric in names:
            values = blocks.values(metric, [block.first_row]).get(block.first_row)
            for row, present in enumerate(has_value(values) if values is not None else []):
                if present:
                    found[row][1][name] = repr(float(values[row]))
        rows += found
    return rows


@given(BATCHES, st.integers(1, 5), st.integers(1, 2000), st.booleans())
def test_the_index_holds_what_a_direct_fold_holds(
    batches: list[Batch], block_rows: int, piece: int, taken_up: bool
) -> None:
    """In pieces of any size, with restarts between them, in blocks of any size."""
    written([(RUN, []), *batches])
    made = database()
    index = RunIndex(1, FOLDER, block_rows)
    while True:
        read_to = index.fold.read_to
        made.execute("BEGIN")
        index.read(made, piece)
        made.execute("COMMIT")
        if index.fold.read_to == read_to:
            break
        if taken_up:
            index = RunIndex(1, FOLDER, block_rows)
            assert index.load(made)
    expected = [
        (row[0], {name: repr(float(value)) for name, value in row[1].items()})
        for row in surviving_rows(JOURNAL, NAMES)
        if isinstance(row, tuple)
    ]
    assert stored_rows(made) == expected
    fold = Fold(JOURNAL)
    fold.update()
    assert index.fold.saved() == fold.saved()
    counted = "SELECT step FROM records WHERE kind = 'checkpoint' AND counts ORDER BY number"
    assert [step for (step,) in made.execute(counted)] == [step for step, _ in fold.checkpoints]
    rollbacks = made.execute("SELECT count(*) FROM records WHERE kind = 'rollback'").fetchone()
    assert rollbacks == (len(fold.rollbacks),)
    made.close()


def test_a_journal_in_its_place_is_noticed() -> None:
    """By its first and its last bytes that were read."""
    written([(RUN, []), (Step(1, 1.5, {"kl": 0.5}), [])])
    made = database()
    index = RunIndex(1, FOLDER)
    index.read(made)
    assert RunIndex(1, FOLDER).load(made)
    written([(RUN, []), (Step(1, 1.5, {"kl": 0.6}), [])])
    assert not RunIndex(1, FOLDER).load(made)
    made.close()


def test_many_small_blocks_become_a_large_one() -> None:
    """A run that is followed live is stored row by row, and read in blocks."""
    steps = [(Step(step, float(step), {"kl": step / 7}), []) for step in range(100)]
    data = written([(RUN, []), *steps])
    made = database()
    index = RunIndex(1, FOLDER, 64)
    lines = data.splitlines(keepends=True)
    JOURNAL.write_bytes(b"")
    for line in lines:
        with JOURNAL.open("ab") as file:
            file.write(line)
        index.read(made)
    sizes = [block.rows for block in RunBlocks(made, 1, "step").blocks]
    assert sum(sizes) == 100
    assert sizes[0] == 64
    assert len(sizes) <= 34
    made.close()


def test_a_logged_nan_is_not_a_missing_value(tmp_path: Path) -> None:
    """They differ in bits, and both survive being packed."""
    logged = [1, "NaN", None, math.inf, "words"]
    _, table = columns([{"kl": value} for value in logged])
    values = unpack_floats(pack_floats(table[0]))
    assert has_value(values).tolist() == [True, True, False, True, False]
    assert math.isnan(values[1])
    assert values[3] == math.inf
