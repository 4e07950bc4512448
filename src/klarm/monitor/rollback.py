"""A rollback: detectors, incidents and timeline return to where they were before a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from klarm.monitor.evaluator import Evaluator
from klarm.monitor.resume import Past, Rows
from klarm.monitor.steps import Timeline
from klarm.types import Event


class RolledBack(NamedTuple):
    """What a rollback has done."""

    how: str  # in words
    undone: bool  # whether rows are rolled back
    corrections: Sequence[Event]  # of what was reported before
    rows_read: int | None  # at most, to rebuild the state; None if they were not counted


def roll_back(
    step: int, kept: Rows | None, past: Past, evaluator: Evaluator, timeline: Timeline
) -> RolledBack | None:
    """Roll back to just before a step; return None if nothing tells what came before it.

    `kept` is the trainer's own record of earlier rows, which is used rather than the journal. The
    caller holds `past.lock`.
    """
    before = past.before(step, kept, evaluator)
    if before is None:
        return None
    evaluator.tracker.checkpoints.go_back_to(step)
    snapshot = before.snapshot
    history = timeline.following(before.rows, None if snapshot is None else snapshot.logged)
    corrections = evaluator.rebuild(
        history, before.recorded, step, undone=before.undone, restored=snapshot is not None
    )
    timeline.go_on_at(step)
    past.forget_from(step)
    rows_read: int | None = 0  # few: snapshots are frequent
    if snapshot is None:
        rows_read = None if past.recorded is None else past.recorded.steps
    return RolledBack(before.how, before.undone, corrections, rows_read)
