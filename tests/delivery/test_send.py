"""Sending: what a channel takes, and what is recorded of it."""

from __future__ import annotations

from loopback import Server
from one_channel import FOLDER, Run


def test_deliveries_that_cannot_be_written_are_said_once(run: Run, server: Server) -> None:
    """And nothing is sent twice by this process."""
    (FOLDER / "deliveries.jsonl").mkdir()  # for root, too
    for incident in (1, 2):
        run.tell("opened", incident=incident, step=incident)
    run.worker.pending._behind = True  # it reads them once more from the journal
    while run.settle() is not None:
        run.now += 2.0
    assert len(server.messages) == 2
    assert len(run.said) == 1
    assert run.said[0].startswith("cannot write deliveries.jsonl (Is a directory)")


def test_a_channel_that_does_not_take_a_message_is_not_sent_it(run: Run, server: Server) -> None:
    """It takes the critical alone: it hears when it got that far, and when it is over."""
    run.worker = run.new_worker(severities=["critical"])
    run.tell("opened")
    run.settle()
    run.tell("escalated", step=12, severity="critical")
    run.settle()
    run.tell("resolved", step=40, severity="critical")
    run.settle()
    assert server.told() == [(1, "escalated", 12), (1, "resolved", 40)]


def test_who_was_told_of_a_critical_incident_is_told_its_end(server: Server) -> None:
    """Though after a rollback it ends as a warning, which the channel does not take."""
    run = Run(server)
    run.worker = run.new_worker(severities=["critical"])
    run.tell("opened", severity="critical")
    run.settle()
    run.tell("resolved", step=40)
    run.settle()
    assert server.told() == [(1, "opened", 10), (1, "resolved", 40)]
