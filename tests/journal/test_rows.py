"""Rows that still count, with the commands of people between them."""

from __future__ import annotations

import math

from batches import JOURNAL, RUN, surviving_rows, written
from msgspec.structs import replace

from klarm.journal.records import Resume, Step
from klarm.journal.rows import with_commands
from klarm.types import Command

CLOSE = Command(command="close", key="c1", time=1.5, by="ada", incident="ka", step=3)


def step(number: int, **values: object) -> tuple[Step, tuple[()]]:
    return Step(number, 1.5, values), ()


def test_several_dicts_of_a_step_are_one() -> None:
    """The first value of a metric counts, unless a later one is not finite."""
    written(
        [
            (RUN, ()),
            step(1, kl=1.0, mood=3.0),
            step(1, kl=2.0, loss=0.5),
            step(1, kl=math.nan),
            step(2, kl=4.0),
        ]
    )
    found = [repr(row) for row in surviving_rows(JOURNAL, {"kl", "loss"})]
    assert found == [
        "(1, {'kl': 1.0})",
        "(1, {'loss': 0.5})",
        "(1, {'kl': nan})",
        "(2, {'kl': 4.0})",
    ]


def test_rows_end_before_the_step_at_which_training_goes_on() -> None:
    """As if it had gone back there."""
    written([(RUN, ()), *(step(number, kl=1.0) for number in range(9))])
    assert [row[0] for row in surviving_rows(JOURNAL, ["kl"], before=3)] == [0, 1, 2]


def test_a_command_stays_in_its_place_and_no_rollback_undoes_it() -> None:
    """Somebody gave it, whatever became of the step."""
    written(
        [
            (RUN, ()),
            step(1, kl=1.0),
            step(2, kl=2.0),
            (CLOSE, ()),
            step(3, kl=3.0),
            (Resume(2, 1.5), ()),
            step(2, kl=2.5),
        ]
    )
    assert list(surviving_rows(JOURNAL, ["kl"])) == [(1, {"kl": 1.0}), CLOSE, (2, {"kl": 2.5})]


def test_rows_that_the_trainer_kept_get_the_commands_of_the_journal() -> None:
    """Each before the row of its step, or where training went back to after it."""
    late = replace(CLOSE, key="c2", step=9)
    undone = replace(CLOSE, key="c0", step=8)
    written(
        [
            (RUN, ()),
            *(step(number, kl=1.0) for number in range(8)),
            (undone, ()),
            step(8, kl=1.0),
            (Resume(2, 1.5), ()),
            step(2, kl=1.0),
            (CLOSE, ()),
            *(step(number, kl=1.0) for number in range(3, 9)),
            (late, ()),
        ]
    )
    kept = [(number, {"kl": 2.0}) for number in range(5)]
    assert list(with_commands(kept, JOURNAL)) == [
        *kept[:2],
        undone,
        kept[2],
        CLOSE,
        *kept[3:],
        late,
    ]
