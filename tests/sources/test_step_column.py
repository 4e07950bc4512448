"""How the step column of a log is found. Covers row.py."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest

from klarm.sources.row import STEP_COLUMNS, LogRow, StepColumn


@pytest.mark.parametrize("first", range(len(STEP_COLUMNS)))
def test_the_best_of_several_step_columns_is_used(first: int) -> None:
    """W&B's own counters come last."""
    fields = {name: place for place, name in enumerate(STEP_COLUMNS)}
    later = {name: fields[name] for name in reversed(STEP_COLUMNS[first:])}
    assert StepColumn().row(later).step == first


@pytest.mark.parametrize(
    ("better", "worse"),
    list(combinations(["train/global_step", "global_step", "step", "iteration", "_step"], 2)),
)
@pytest.mark.parametrize("spell", [str, str.upper], ids=["as it is", "UPPER"])
def test_the_step_of_the_trainer_is_preferred(
    better: str, worse: str, spell: Callable[[str], str]
) -> None:
    """Whichever column comes first in the log."""
    for names in ((better, worse), (worse, better)):
        fields = {spell(name): 1 if name == better else 2 for name in names}
        assert StepColumn().row(fields).step == 1


def test_an_exact_name_is_preferred_to_another_case() -> None:
    """The order of the known names does not matter."""
    row = StepColumn().row({"Train/Global_Step": 1, "_step": 2})
    assert row == LogRow(2, {"Train/Global_Step": 1})


def test_klarm_never_alternates_between_step_columns() -> None:
    """The column of the previous row is kept if the row has it, even with an empty cell."""
    column = StepColumn()
    assert column.row({"step": 1, "kl": 0.1}).step == 1
    assert column.row({"global_step": 70, "step": 2}).step == 2
    assert column.row({"global_step": 80, "step": ""}).step is None
    assert column.row({"global_step": 90}).step == 90  # better than none


def test_a_named_step_column_is_the_only_one_used() -> None:
    """Case and spaces in its name do not matter."""
    assert StepColumn("My Step").row({"step": 1, "my step": 2}).step == 2
    assert StepColumn("my").row({"step": 1, "global_step/max_steps": "1/9"}).step is None
