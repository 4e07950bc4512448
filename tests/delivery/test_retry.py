"""Failures and rejections: when a channel is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Server
from one_channel import FOLDER, Run, outcomes

from klarm.delivery import log as deliveries
from klarm.delivery.retry import Retry


def test_a_service_that_fails_is_tried_again_with_growing_pauses(run: Run, server: Server) -> None:
    """500 three times, then 200: said once, recorded with four attempts."""
    server.answers = [(500, {}), (502, {}), (503, {})]
    run.tell("opened")
    pauses = []
    while (pause := run.settle()) is not None:
        pauses.append(pause)
        assert run.settle() == pause  # too early: nothing is sent
        run.now += pause
    assert pauses == [0.5, 1.0, 2.0]
    assert len(server.messages) == 4
    assert [entry.attempts for _, entry in deliveries.read(FOLDER)] == [4]  # type: ignore[union-attr]
    assert run.said == [
        "hook: delivery failed (HTTP 500); retrying.",
        "hook: delivery works again.",
    ]


def test_pauses_grow_up_to_five_minutes(run: Run, server: Server) -> None:
    """However long a service is down, it is not given up."""
    server.answers = [(500, {})] * 40
    run.tell("opened")
    pause = None
    for _ in range(40):
        pause = run.settle()
        assert pause is not None
        run.now += pause
    assert pause == 150.0  # half of it is left to chance
    assert run.settle() is None
    assert outcomes() == [(1, "opened", "sent")]


def test_a_service_that_asks_for_patience_gets_it(run: Run, server: Server) -> None:
    """429 with Retry-After: not a moment earlier, for any message."""
    server.answers = [(429, {"Retry-After": "37"})]
    run.tell("opened")
    assert run.settle() == 37.0
    run.tell("opened", incident=2, step=11, signal="loss")
    run.now += 36.9
    assert run.settle() == pytest.approx(0.1)
    assert len(server.messages) == 1
    run.now += 0.1
    assert run.settle() is None
    assert server.received()[1:] == [(2, "opened", 11), (1, "opened", 10)]


def test_a_refusal_is_said_once_and_after_three_the_channel_has_time_to_be_mended(
    run: Run, server: Server
) -> None:
    """401: what was not tried stays owed; it is said when it is, and how to check."""
    server.answers = [(401, {})] * 10
    for incident in range(1, 6):
        run.tell("opened", incident=incident, step=incident)
    assert run.settle() == 900.0
    assert [incident for incident, _, _ in server.received()] == [1, 2, 3]
    assert outcomes() == [(n, "opened", "refused") for n in (1, 2, 3)]
    assert run.said == [
        "hook: message rejected (HTTP 401); retrying at most once an hour while its incident is "
        "open.",
        "hook: 3 messages rejected in a row; retrying every 15 minutes. Fix the channel and check "
        "it with `klarm test-alert`.",
    ]
    assert run.worker.is_closed
    assert run.worker.pending


def test_a_channel_that_is_mended_is_notified_of_all_that_came_since_the_third_refusal(
    run: Run, server: Server
) -> None:
    """It is tried every 15 minutes, each time with another incident; no refusal settles one."""
    server.answers = [(401, {})] * 6
    for incident in range(1, 4):
        run.tell("opened", incident=incident, step=incident)
    run.settle()
    server.messages.clear()
    for incident in (4, 5):
        run.tell("opened", incident=incident, step=incident)
    assert run.settle() == 900.0
    for _ in range(3):
        run.now += 900.0
        assert run.settle() == 900.0
    assert server.received() == [(4, "opened", 4), (5, "opened", 5), (1, "opened", 1)]
    assert len(outcomes()) == 3
    run.tell("resolved", incident=4, step=40)
    run.now += 899.0
    assert run.settle() == 1.0
    run.now += 1.0
    assert run.settle() is None
    news = [(1, "opened", 1), (2, "opened", 2), (3, "opened", 3), (4, "resolved", 40)]
    assert sorted(server.received()[3:]) == [*news, (5, "opened", 5)]
    assert not run.worker.pending
    assert run.said[-1] == "hook: delivery works again."
    server.answers = [(401, {})]
    run.tell("opened", incident=6, step=50)
    assert run.settle() == 60.0
    assert outcomes()[-1] == (6, "opened", "refused")


def test_a_channel_that_refuses_and_then_fails_is_tried_until_it_answers(
    run: Run, server: Server
) -> None:
    """As any other; then again every 15 minutes."""
    server.answers = [(401, {})] * 3 + [(503, {}), (401, {})]
    for incident in range(1, 5):
        run.tell("opened", incident=incident, step=incident)
    pauses = []
    while (pause := run.settle()) is not None:
        pauses.append(pause)
        run.now += pause
    assert pauses == [900.0, 0.5, 900.0]
    assert (4, "opened", "sent") in outcomes()


def test_what_was_refused_is_sent_again_only_when_asked_for(run: Run, server: Server) -> None:
    """The next start sends what was not tried; --again sends the rest."""
    server.answers = [(401, {})] * 3
    for incident in range(1, 6):
        run.tell("opened", incident=incident, step=incident)
    run.settle()
    run.worker._outbox.release()
    later = run.new_worker(behind=True)
    assert run.settle(later) is None
    assert [incident for incident, _, _ in server.received()[3:]] == [4, 5]
    later._outbox.release()
    assert run.settle(run.new_worker(behind=True, again="all")) is None
    assert [incident for incident, _, _ in server.received()[5:]] == [1, 2, 3]


def test_the_next_start_tries_once_more_what_was_refused_and_is_still_open(
    run: Run, server: Server
) -> None:
    """A token that was mended in between: nobody has to ask. What is over is left refused."""
    server.answers = [(401, {})] * 2
    run.tell("opened", incident=1, step=1)
    run.tell("opened", incident=2, step=2)
    run.settle()
    run.tell("resolved", incident=2, step=30)
    server.answers = [(401, {})]
    run.settle()
    run.worker._outbox.release()
    later = run.new_worker(behind=True, again="open")
    assert run.settle(later) is None
    assert server.received()[3:] == [(1, "opened", 1)]
    assert outcomes()[-1] == (1, "opened", "sent")


def test_what_is_refused_once_more_does_not_keep_new_incidents_from_being_sent(
    run: Run, server: Server
) -> None:
    """Messages that a service never takes do not make the channel be left alone at every start."""
    for incident in range(1, 5):
        server.answers = [(400, {})]
        run.tell("opened", incident=incident, step=incident)
        run.settle()
        server.answers = []
        run.tell("opened", incident=10 + incident, step=10 + incident)
        run.settle()
    run.worker._outbox.release()
    server.messages.clear()
    server.answers = [(400, {})] * 4
    run.worker = run.new_worker(behind=True, again="open")
    run.settle()
    run.tell("opened", incident=20, step=20)
    run.settle()
    assert [incident for incident, _, _ in server.received()] == [1, 2, 3, 4, 20]
    run.settle()
    assert len(server.messages) == 5


def test_a_refused_message_does_not_end_a_channel_that_works(run: Run, server: Server) -> None:
    """One 400 is about the message."""
    server.answers = [(400, {}), (200, {}), (400, {}), (200, {}), (400, {}), (200, {})]
    for incident in range(1, 7):
        run.tell("opened", incident=incident, step=incident)
        run.settle()
    assert [outcome for _, _, outcome in outcomes()] == ["refused", "sent"] * 3
    assert not run.worker.is_closed


@given(st.lists(st.sampled_from(["failed", "rejected", "succeeded"]) | st.floats(0, 1e9)))
def test_whatever_goes_wrong_a_channel_is_tried_again_within_an_hour(what: list[object]) -> None:
    """Failures, rejections and services that ask for patience, in any order."""
    now = 0.0
    retry = Retry(monotonic=lambda: now, jitter=lambda: 1.0)
    for happened in what:
        if isinstance(happened, float):
            retry.failed(happened)
        else:
            getattr(retry, str(happened))()
        assert 0.0 <= retry.seconds_to_wait <= 3600.0 + 1e-6  # but for rounding
        now += retry.seconds_to_wait
        assert retry.seconds_to_wait == 0.0
