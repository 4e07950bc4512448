"""The small curves of the overview: read as a whole or from stored extremes, they are the same."""

from __future__ import annotations

import math

from batches import FOLDER, RUN, written
from hypothesis import given
from hypothesis import strategies as st
from serving_runs import database

from klarm.journal import Step
from klarm.server.blocks import RunBlocks
from klarm.server.run_index import RunIndex
from klarm.server.sparklines import from_extremes, from_rows, sparklines
from klarm.server.summary import SHOWN_METRICS

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
    RunIndex(1, FOLDER, block_rows).read(made)
    blocks = RunBlocks(made, 1, "step")
    span = blocks.range()
    assert span is not None
    short, long = from_rows(blocks, span), from_extremes(blocks, span)
    made.close()
    assert {name: repr(curve) for name, curve in short.items() if curve} == {
        name: repr(curve) for name, curve in long.items() if curve
    }


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
