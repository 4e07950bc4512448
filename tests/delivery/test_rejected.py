"""Rejections: what a service refuses is tried again, rarely, while its incident is open."""

from __future__ import annotations

import pytest
from loopback import Server
from one_channel import Run, ack, id_of, outcomes

from klarm.delivery.rejected import pause_after


@pytest.mark.parametrize("status", [400, 403, 404, 302])
def test_a_rejection_that_passes_costs_no_incident(run: Run, server: Server, status: int) -> None:
    """Two of them, as while a service is being deployed; then it is sent."""
    server.answers = [(status, {})] * 2
    run.tell("opened", severity="critical")
    pauses = []
    while (pause := run.settle()) is not None:
        pauses.append(pause)
        assert run.settle() == pause  # too early: nothing is sent
        run.now += pause
    assert pauses == [60.0, 240.0]
    assert [event for _, event, _ in server.received()] == ["opened"] * 3
    assert outcomes() == [(1, "opened", "refused")] * 2 + [(1, "opened", "sent")]


def test_what_is_rejected_for_good_is_tried_once_an_hour(run: Run, server: Server) -> None:
    """And counts as one rejection: the channel is not at fault."""
    server.answers = [(400, {})] * 100
    run.tell("opened")
    pause = None
    for _ in range(100):
        pause = run.settle()
        assert pause is not None
        run.now += pause
    assert pause == 3600.0
    assert not run.worker.retry.is_rejecting
    assert run.settle() is None
    assert outcomes()[-1] == (1, "opened", "sent")


def test_pauses_grow_up_to_an_hour() -> None:
    """However often a message was rejected."""
    assert [pause_after(times) for times in (1, 2, 3, 4, 5, 10**9)] == [60, 240, 960, 3600] + [
        3600
    ] * 2


def test_a_run_that_is_not_recorded_does_not_lose_it_either(server: Server) -> None:
    """It is kept in memory."""
    run = Run(server, folder=None)
    server.answers = [(404, {})]
    run.tell("opened")
    pause = run.settle()
    assert pause is not None
    run.now += pause
    assert run.settle() is None
    assert server.received() == [(1, "opened", 10)] * 2


def test_news_of_the_incident_does_not_wait_and_takes_along_what_was_rejected(
    run: Run, server: Server
) -> None:
    """One message says both; once it is taken, nothing is left to be tried again."""
    server.answers = [(404, {})]
    run.tell("opened")
    run.settle()
    run.tell("resolved", step=30)
    assert run.settle() is None
    assert server.received()[1:] == [(1, "resolved", 30)]
    assert "Opened at step 10" in server.messages[1]["body"]
    run.now += 10_000.0
    assert run.settle() is None
    assert len(server.messages) == 2
    assert outcomes()[1:] == [(1, "opened", "sent"), (1, "resolved", "sent")]


def test_what_fails_meanwhile_loses_nothing(run: Run, server: Server) -> None:
    """A rejection, then no answer, then a rejection, then it is taken."""
    server.answers = [(404, {}), (500, {}), (404, {})]
    run.tell("opened")
    while (pause := run.settle()) is not None:
        run.now += pause
    assert len(server.messages) == 4
    assert outcomes()[-1] == (1, "opened", "sent")


def test_of_an_incident_that_is_over_nothing_is_tried_for_ever(run: Run, server: Server) -> None:
    """Its end is tried a few times, for a rejection that passes; then it waits for --again."""
    server.answers = [(400, {})] * 20
    run.tell("opened")
    run.settle()
    run.now += 1.0
    run.tell("resolved", step=30)
    pauses = []
    while (pause := run.settle()) is not None:
        pauses.append(pause)
        run.now += pause
    assert pauses == [240.0, 960.0]
    assert run.outbox.rejections("hook") == 1
    run.outbox.release()
    run.now += 10_000.0
    assert run.settle(run.new_worker(behind=True, again="due")) is None
    assert len(server.messages) == 4


def test_what_another_process_had_rejected_is_tried_again_by_this_one(
    run: Run, server: Server
) -> None:
    """`klarm deliver` held the run meanwhile, and has ended."""
    other = run.new_worker(behind=True)
    assert other._outbox.claim()
    run.tell("opened")
    assert run.settle() == 15.0
    server.answers = [(404, {})]
    run.settle(other)
    other._outbox.release()
    run.now += 15.0
    assert run.settle() == 45.0
    run.now += 45.0
    assert run.settle() is None
    assert outcomes() == [(1, "opened", "refused"), (1, "opened", "sent")]


def test_later_calls_of_deliver_try_it_when_it_is_time(run: Run, server: Server) -> None:
    """Not at every call: cron may call it once a minute."""
    server.answers = [(404, {})] * 2
    run.tell("opened")
    run.settle()
    run.outbox.release()
    sent_at = []
    for _ in range(10):
        run.now += 59.0
        before = len(server.messages)
        later = run.new_worker(behind=True, again="due")
        run.settle(later)
        later._outbox.release()
        if len(server.messages) > before:
            sent_at.append(run.now - 5000.0)
    assert sent_at == [118.0, 413.0]
    assert outcomes()[-1] == (1, "opened", "sent")


def test_a_clock_that_went_back_does_not_put_it_off(run: Run, server: Server) -> None:
    """By years, perhaps."""
    server.answers = [(404, {})]
    run.tell("opened")
    run.settle()
    run.outbox.release()
    run.now -= 4000.0
    run.settle(run.new_worker(behind=True, again="due"))
    assert outcomes()[-1] == (1, "opened", "sent")


def test_a_channel_that_works_again_is_sent_at_once_what_it_rejected(
    run: Run, server: Server
) -> None:
    """Three were rejected because of a wrong token, which was mended."""
    server.answers = [(401, {})] * 3
    for incident in range(1, 5):
        run.tell("opened", incident=incident, step=incident)
    assert run.settle() == 900.0
    run.now += 900.0
    assert run.settle() is None
    assert sorted(incident for incident, _, _ in server.received()[3:]) == [1, 2, 3, 4]


def test_somebody_who_acknowledged_it_knows_of_it(run: Run, server: Server) -> None:
    """Then nothing is left that nobody knows of."""
    server.answers = [(400, {})]
    run.tell("opened")
    run.settle()
    assert run.outbox.rejections("hook") == 1
    ack(1)
    run.outbox.refresh()
    assert run.outbox.rejections("hook") == 0
    assert id_of(1) in run.outbox.acknowledged
