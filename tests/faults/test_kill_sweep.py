"""A run that is killed at any write loses no event: `klarm deliver` sends it, or a restart."""

from __future__ import annotations

import pytest
from sweep import Sweep, kept, sweep_writes


@pytest.fixture(scope="module", params=[11, pytest.param(1, marks=pytest.mark.slow)])
def sweep(request: pytest.FixtureRequest) -> Sweep:
    """Kill a run at every so many writes; return what was recorded, and reached the service."""
    return sweep_writes(request.param)


def test_the_run_has_something_to_lose(sweep: Sweep, request: pytest.FixtureRequest) -> None:
    """It is taken up, goes back, and incidents open, end, and are open when it ends."""
    straight, *others = sweep.reports
    kinds = [kind for _, kind, *_ in straight["events"]]
    reasons = [reason for _, _, _, reason, *_ in straight["events"]]
    assert {"opened", "escalated", "reopened", "resolved", "ended"} <= set(kinds)
    assert {"resumed", "rolled_back", "finished"} <= set(reasons)
    assert len(others) > 80 / request.node.callspec.params["sweep"]


@pytest.mark.parametrize("how", ["deliver", "restart"])
def test_every_event_is_delivered(sweep: Sweep, how: str) -> None:
    """Whatever was on its way to the disk when the process died."""
    assert sweep.lost(how) == []


def test_a_restart_comes_to_the_same_incidents(sweep: Sweep) -> None:
    """As the run that was never killed; what was undone and came again does not count."""
    expected = kept(sweep.reports[0])
    for report in sweep.of("restart"):
        assert kept(report) == expected, (report["crash"], report["part"])


def test_no_id_is_ever_reused(sweep: Sweep) -> None:
    """Across all the runs of the sweep, but for those that had begun before the crash."""
    before = {event[0] for event in sweep.reports[0]["events"]}
    opened = [
        id_
        for report in sweep.of("restart")
        for id_, kind, *_ in report["events"]
        if kind == "opened" and id_ not in before
    ]
    assert len(set(opened)) == len(opened)
