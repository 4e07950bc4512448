"""Reminders: who was notified of an open incident is notified again, if nobody acknowledges it."""

from __future__ import annotations

import pytest
from loopback import Server
from one_channel import Run, ack, command, id_of, outcomes, silence

HOUR = 3600.0


@pytest.fixture
def reminded(run: Run) -> Run:
    run.worker = run.new_worker(repeat_after=4.0)
    return run


def wait(run: Run, hours: float) -> float | None:
    run.now += hours * HOUR
    return run.settle()


def test_people_are_reminded_of_an_open_critical_incident_after_so_many_hours(
    reminded: Run, server: Server
) -> None:
    """And again; it says that it is still open, for how long, and how to end that."""
    reminded.tell("opened", severity="critical", id="kq7x2abc")
    assert reminded.settle() == 4 * HOUR
    assert wait(reminded, 3.9) == pytest.approx(0.1 * HOUR)
    assert len(server.messages) == 1
    for times in (1, 2):
        assert wait(reminded, 4 if times > 1 else 0.1) == 4 * HOUR
        message = server.messages[times]
        assert message["repeat"] == times
        assert ": still open: kl critical, began at step 10" in message["title"]
        assert f"for {4 * times} h" in message["fields"]["Still open"]
        assert "`klarm ack kq7x2abc`" in message["body"]
        assert "Sent late" not in message["body"]
        assert (message["state"], message["changes"]) == ("open", [])
    assert len({message["message_id"] for message in server.messages}) == 3
    assert outcomes() == [(1, "opened", "sent")] * 3


@pytest.mark.parametrize("kind", ["settled", "resolved", "ended"])
def test_nobody_is_reminded_of_what_is_quiet_or_over(
    reminded: Run, server: Server, kind: str
) -> None:
    """A run that has ended cannot get worse."""
    reminded.tell("opened", severity="critical")
    reminded.settle()
    reminded.tell(kind, step=20, severity="critical")  # type: ignore[arg-type]
    reminded.settle()
    before = len(server.messages)
    assert wait(reminded, 100) is None
    assert len(server.messages) == before


def test_nobody_is_reminded_of_what_somebody_has_acknowledged(
    reminded: Run, server: Server
) -> None:
    """Also if that happened a moment ago."""
    reminded.tell("opened", severity="critical")
    reminded.settle()
    ack(1)
    assert wait(reminded, 5) == 4 * HOUR  # when to look whether it still is
    assert wait(reminded, 5) == 4 * HOUR
    assert len(server.messages) == 1


def test_an_acknowledgement_that_was_taken_back_brings_reminders_back(
    reminded: Run, server: Server
) -> None:
    """Though no further event of the incident wakes the channel."""
    reminded.tell("opened", severity="critical")
    reminded.settle()
    ack(1)
    wait(reminded, 5)
    command("ack_off", incident=id_of(1))
    wait(reminded, 4)
    assert [message["repeat"] for message in server.messages] == [0, 1]
    ack(1)  # and again
    wait(reminded, 5)
    assert len(server.messages) == 2


def test_a_silence_that_holds_for_criticals_holds_reminders(reminded: Run, server: Server) -> None:
    """Until it ends."""
    reminded.tell("opened", severity="critical")
    reminded.settle()
    silence(until_time=reminded.now + 10 * HOUR, even_critical=True)
    wait(reminded, 5)
    assert len(server.messages) == 1
    wait(reminded, 6)
    assert len(server.messages) == 2


def test_warnings_are_sent_once_unless_asked_for(reminded: Run, server: Server) -> None:
    """The setting repeat_severity."""
    reminded.tell("opened")
    reminded.settle()
    assert wait(reminded, 100) is None
    reminded.outbox.release()
    eager = reminded.new_worker(behind=True, repeat_after=4.0, repeat_severity="warning")
    reminded.settle(eager)
    assert [message["repeat"] for message in server.messages] == [0, 1]


def test_after_a_restart_the_time_counts_from_the_last_message(
    reminded: Run, server: Server
) -> None:
    """And so does the number of reminders."""
    reminded.tell("opened", severity="critical")
    reminded.settle()
    wait(reminded, 4)
    reminded.outbox.release()
    reminded.now += 1 * HOUR
    reminded.worker = reminded.new_worker(behind=True, repeat_after=4.0)
    assert reminded.settle() == 3 * HOUR
    wait(reminded, 3)
    assert [message["repeat"] for message in server.messages] == [0, 1, 2]


def test_a_reminder_that_is_rejected_waits_for_the_next_turn(reminded: Run, server: Server) -> None:
    """One that fails is tried again like any message."""
    reminded.tell("opened", severity="critical")
    reminded.settle()
    server.answers = [(404, {})]
    assert wait(reminded, 4) == 4 * HOUR
    server.answers = [(500, {})]
    pause = wait(reminded, 4)
    assert pause is not None
    assert pause < 60.0
    reminded.now += pause
    reminded.settle()
    assert [message["repeat"] for message in server.messages] == [0, 1, 1, 1]


def test_without_the_setting_nobody_is_reminded(run: Run, server: Server) -> None:
    """Zero hours."""
    run.tell("opened", severity="critical")
    assert run.settle() is None
    assert wait(run, 1000) is None
    assert len(server.messages) == 1
