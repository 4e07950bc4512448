"""The outbox: the journal less the deliveries."""

from __future__ import annotations

from pathlib import Path

import pytest
from loopback import Server
from one_channel import FOLDER, Run, outcomes, silence

from klarm.delivery.log import FILE_NAME as DELIVERIES
from klarm.delivery.outbox import Outbox
from klarm.journal import COMMANDS_FILE
from klarm.types import Event


def pending(folder: Path, channel: str) -> list[Event]:
    outbox = Outbox(folder)
    outbox.refresh()
    return outbox.pending(channel, 0, 100, lambda _: True).events


def test_a_number_that_is_used_again_is_another_incident(run: Run, server: Server) -> None:
    """A full disk, or a kill, may have made the run forget its numbers: the ids differ."""
    run.tell("opened", severity="critical")
    run.settle()
    run.tell("opened", severity="critical", id="kq7x2abc")
    run.settle()
    assert len(server.messages) == 2
    assert outcomes() == [(1, "opened", "sent"), (1, "opened", "sent")]


def test_a_silence_for_an_earlier_run_of_the_name_does_not_count(server: Server) -> None:
    """Its journal was deleted, the commands beside it were not."""
    run = Run(server, began=6000.0)
    silence(until_step=1000)  # at 5000
    run.tell("opened")
    run.settle()
    assert len(server.messages) == 1


def test_a_damaged_line_is_said_once(run: Run) -> None:
    """However often the file is read again."""
    for incident in (1, 2):
        run.tell("opened", incident=incident, step=incident)
    run.settle()
    file = FOLDER / DELIVERIES
    file.write_bytes(file.read_bytes().replace(b'"attempts":1', b'"attempts":9'))
    said: list[str] = []
    outbox = Outbox(FOLDER, say=said.append)
    for _ in range(2):
        outbox.refresh()
    (line,) = said
    assert line.startswith("deliveries.jsonl is damaged at byte 0")


def test_a_damaged_command_is_said_once(run: Run) -> None:
    """Unless the run watches its commands, and says so itself."""
    silence(until_step=1000)
    file = FOLDER / COMMANDS_FILE
    file.write_bytes(file.read_bytes().replace(b"1000", b"2000"))
    said: list[str] = []
    outbox = Outbox(FOLDER, say=said.append)
    watched = Outbox(FOLDER, say=pytest.fail, commands_watched=True)
    for _ in range(2):
        outbox.refresh()
        watched.refresh()
    (line,) = said
    assert line.startswith("commands.jsonl is damaged at byte 0: the line is skipped.")


def test_what_was_overtaken_is_not_sent(run: Run) -> None:
    """An escalation that was sent makes the opening old news, in the order of the journal."""
    opened = run.tell("opened")
    escalated = run.tell("escalated", step=12)
    resolved = run.tell("resolved", step=5)  # training went back
    run.outbox.settle("hook", [escalated], "sent")
    everything = [opened, escalated, resolved]
    assert run.outbox.outcomes.unsettled("hook", everything) == [resolved]
    assert [event.event for event in pending(FOLDER, "hook")] == ["resolved"]
    run.outbox.settle("hook", [resolved], "silenced")
    assert pending(FOLDER, "hook") == []


def test_a_critical_is_sent_where_a_warning_of_the_same_step_was(run: Run, server: Server) -> None:
    """Training went back, or a step has several dicts: the second escalation is news."""
    run.tell("opened")
    run.tell("escalated", step=60, severity="warning")
    run.settle()
    run.tell("escalated", step=60, severity="critical")
    assert [event.severity for event in pending(FOLDER, "hook")] == ["critical"]
    run.settle()
    assert [m["severity"] for m in server.messages] == ["warning", "critical"]
    assert pending(FOLDER, "hook") == []


def test_escalations_of_one_step_that_wait_are_one_message(run: Run, server: Server) -> None:
    """With the worst of them."""
    for severity in ("warning", "warning", "critical"):
        run.tell("escalated", step=60, severity=severity)
    run.settle()
    (message,) = server.messages
    assert (message["event"], message["severity"]) == ("escalated", "critical")
    assert outcomes() == [(1, "escalated", "sent")] * 3
