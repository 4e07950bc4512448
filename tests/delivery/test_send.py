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
    assert server.received() == [(1, "escalated", 12), (1, "resolved", 40)]


def test_a_channel_that_was_notified_of_a_critical_incident_is_notified_of_its_end(
    server: Server,
) -> None:
    """Though after a rollback it ends as a warning, which the channel does not take."""
    run = Run(server)
    run.worker = run.new_worker(severities=["critical"])
    run.tell("opened", severity="critical")
    run.settle()
    run.tell("resolved", step=40)
    run.settle()
    assert server.received() == [(1, "opened", 10), (1, "resolved", 40)]


def test_a_message_has_the_same_id_whenever_it_is_tried(run: Run, server: Server) -> None:
    """Also by another process: the answer to the first may have been lost."""
    server.answers = [(500, {}), (500, {})]
    run.tell("opened", id="kq7x2abc")
    pause = run.settle()
    assert pause is not None
    run.now += pause
    run.settle()
    run.outbox.release()
    run.settle(run.new_worker(behind=True))
    ids = [message["message_id"] for message in server.messages]
    assert len(ids) == 3
    assert len(set(ids)) == 1
    assert len(ids[0]) == 32


def test_a_message_that_says_more_has_another_id(run: Run, server: Server) -> None:
    """A receiver that has the first must not take the second for the same."""
    server.answers = [(500, {})]
    run.tell("opened")
    run.settle()
    run.tell("escalated", step=12, severity="critical")
    run.now += 60.0
    run.settle()
    run.tell("resolved", step=40, severity="critical")
    run.settle()
    assert len({message["message_id"] for message in server.messages}) == 3
