"""The small curves of the overview: read as a whole or from stored extremes, they are the same."""

from __future__ import annotations

import math

from batches import FOLDER, RUN, written
from hypothesis import given
from hypothesis import strategies as st
from serving_runs import database

from klarm.journal import Resume, Step
from klarm.server.blocks import RunBlocks
from klarm.server.run_index import RunIndex
from klarm.server.sparklines import from_extremes, sparklines
from klarm.server.summary import SHOWN_METRICS, latest_values

VALUES = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, -0.0, 1.0, 1.0, math.nan, math.inf]))
ROWS = st.lists(
    st.tuples(
        st.integers(-2, 9).filter(bool),
        st.dictionaries(st.sampled_from((*SHOWN_METRICS, "loss")), VALUES, max_size=4),
    ),
    min_size=1,
    max_size=150,
)


@given(ROWS, st.integers(1, 40))
def test_a_short_run_is_drawn_as_a_long_one(
    rows: list[tuple[int, dict[str, float]]], block_rows: int
) -> None:
    """Whatever the gaps between steps, even when steps go back and values are missing."""
    step, steps = 20, []
    for to_next, values in rows:
        step += to_next
        steps.append((Step(step, float(len(steps)), values), []))
    written([(RUN, []), *steps])
    made = database()
    index = RunIndex(1, FOLDER, block_rows)
    index.read(made)
    blocks = RunBlocks(made, 1, "step")
    span = blocks.range()
    assert span is not None
    long = {name: curve for name, curve in from_extremes(blocks, span).items() if curve}
    assert repr(ordered(sparklines(made, 1))) == repr(ordered(long))
    whole = index.whole()
    assert (whole is not None) == (len(blocks.blocks) == 1)
    assert repr(ordered(sparklines(made, 1, whole))) == repr(ordered(long))
    assert repr(latest_values(made, 1, whole)) == repr(latest_values(made, 1))
    made.close()


def test_rows_in_memory_are_all_that_count() -> None:
    """Not those that were undone, nor only a part."""
    steps = [(Step(step, float(step), {"kl": float(step)}), []) for step in range(6)]
    made = database()
    index = RunIndex(1, FOLDER)
    for batches, expected in (
        ([(RUN, []), *steps[:3]], [0.0, 1.0, 2.0]),
        ([(RUN, []), *steps], None),  # in two blocks
        ([(RUN, []), *steps, (Resume(3, 1.5), [])], [0.0, 1.0, 2.0]),
    ):
        written(batches)
        index.read(made)
        whole = index.whole()
        assert (None if whole is None else whole.table[0].tolist()) == expected
    made.close()


def ordered(curves: dict[str, list[float | None]]) -> dict[str, list[float | None]]:
    return {name: curves[name] for name in SHOWN_METRICS if name in curves}


def test_a_spike_of_one_step_is_drawn() -> None:
    """In each curve where it is, and rounded to four digits."""
    steps = [(Step(step, float(step), {"kl": 0.0123456, "reward": 1.0}), []) for step in range(300)]
    steps[123] = (Step(123, 123.0, {"kl": 99.98765, "reward": 1.0}), [])
    written([(RUN, []), *steps])
    made = database()
    RunIndex(1, FOLDER).read(made)
    found = sparklines(made, 1)
    made.close()
    assert found == {"kl": [*[0.01235] * 10, 99.99, *[0.01235] * 14], "reward": [1.0] * 24}
