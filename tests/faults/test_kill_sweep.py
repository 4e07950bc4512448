"""A run that is killed at any write loses no event: `klarm deliver` sends it, or a restart."""

from __future__ import annotations

import pytest
from sweep import Sweep, kept, sweep_writes


# One test, because the sweep takes longer than all that is asked of it.
@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_at_a_write_loses_nothing(every: int) -> None:
    """Every event is delivered, a restart comes to the same incidents, and no id is reused."""
    sweep = sweep_writes(every)
    assert_something_can_be_lost(sweep)
    assert len(sweep.reports) > 80 / every
    # Whatever was on its way to the disk when the process died.
    assert sweep.lost("deliver") == []
    assert sweep.lost("restart") == []
    # As the run that was never killed; what was undone and came again does not count.
    expected = kept(sweep.reports[0])
    for report in sweep.of("restart"):
        assert kept(report) == expected, (report["crash"], report["part"])
    assert_no_id_is_reused(sweep)


def assert_something_can_be_lost(sweep: Sweep) -> None:
    """The run is taken up, goes back, and incidents open, end, and are open when it ends."""
    straight = sweep.reports[0]
    kinds = [kind for _, kind, *_ in straight["events"]]
    reasons = [reason for _, _, _, reason, *_ in straight["events"]]
    assert {"opened", "escalated", "reopened", "resolved", "ended"} <= set(kinds)
    assert {"resumed", "rolled_back", "finished"} <= set(reasons)


def assert_no_id_is_reused(sweep: Sweep) -> None:
    """Across all the runs of the sweep, but for those that had begun before the crash."""
    before = {event[0] for event in sweep.reports[0]["events"]}
    opened = [
        id_
        for report in sweep.of("restart")
        for id_, kind, *_ in report["events"]
        if kind == "opened" and id_ not in before
    ]
    assert len(set(opened)) == len(opened)
