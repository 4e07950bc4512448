"""Commands from outside: they reach a live run, are applied at a step, recorded and replayed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import klarm
from klarm.analysis.replay import ids_in, replay
from klarm.cli.group import klarm as command
from klarm.config.layers import load
from klarm.journal.commands import append_command, new_key, read_commands
from klarm.journal.fold import Fold
from klarm.journal.reading import read_journal
from klarm.monitor.command_watch import CommandWatch
from klarm.monitor.monitor import Monitor
from klarm.notices import Notices
from klarm.sources import read_log
from klarm.types import Command, Event

pytestmark = pytest.mark.usefixtures("one_detector")

JOURNAL = Path("klarm_runs/a/journal.jsonl")


def broken_run() -> Monitor:
    """A live run with an incident open on KL."""
    monitor = klarm.init("a", console=False)
    for step in range(40):
        monitor.log({"kl": 0.1 + step % 2 / 100}, step)
    monitor.log({"kl": math.nan}, 40)
    return monitor


def run(*arguments: str) -> str:
    done = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def events() -> list[Event]:
    return [record for record in read_journal(JOURNAL) if isinstance(record, Event)]


def wait_for_command(monitor: Monitor) -> None:
    """The thread looks once a second."""
    deadline = time.monotonic() + 20
    while not monitor._commands and time.monotonic() < deadline:
        time.sleep(0.05)
    assert monitor._commands


def test_a_live_run_closes_an_incident_with_its_next_step() -> None:
    """`klarm close` writes beside the journal, and the run records what it did."""
    monitor = broken_run()
    (incident,) = monitor.incidents
    said = run("close", "1", "--by", "ada")
    assert (
        said == f"run a: incident 1 ({incident.id}) on kl will be closed with the run's next step\n"
    )
    wait_for_command(monitor)
    monitor.log({"kl": 0.1}, 41)
    assert (incident.state, incident.reason) == ("resolved", "closed")
    closed = events()[-1]
    assert (closed.event, closed.reason, closed.by, closed.step) == (
        "resolved",
        "closed",
        "ada",
        41,
    )
    (applied,) = [record for record in read_journal(JOURNAL) if isinstance(record, Command)]
    assert (applied.command, applied.step, applied.lines) == ("close", 41, 1)


def test_a_replay_applies_the_same_commands() -> None:
    """Live equals replay, whatever people did in between."""
    monitor = broken_run()
    run("close", "1", "--accept")
    wait_for_command(monitor)
    for step in range(41, 90):
        monitor.log({"kl": math.nan if step == 70 else 0.1}, step)
    klarm.finish()
    found = replay(
        read_log(JOURNAL.parent, print), lambda known: load(recorded=known), ids_in(JOURNAL)
    )
    assert found.events == events()
    assert [event.reason for event in found.events][1] == "accepted"


def test_a_command_is_applied_once() -> None:
    """Also where the next process finds it in the file again."""
    monitor = broken_run()
    run("ack", "1", "--by", "ada")
    wait_for_command(monitor)
    monitor.log({"kl": 0.1}, 41)
    klarm.finish()
    again = klarm.init("a", console=False)
    again.log({"kl": 0.1}, 42)
    klarm.finish()
    commands = [record for record in read_journal(JOURNAL) if isinstance(record, Command)]
    assert [(record.command, record.by) for record in commands] == [("ack", "ada")]


def test_what_a_run_did_not_live_to_apply_its_next_process_does() -> None:
    """It was killed within the second."""
    monitor = broken_run()
    (incident,) = monitor.incidents
    folder = JOURNAL.parent
    klarm.finish()
    late = Command(command="close", key=new_key(), time=1.0, by="ada", incident=incident.id)
    append_command(folder, late)
    again = klarm.init("a", console=False)
    again.log({"kl": 0.1}, 41)
    assert events()[-1].reason == "closed"


def test_an_incident_of_a_run_that_is_over_is_closed_in_its_journal() -> None:
    """There is nobody else to write it; the next process knows of it."""
    broken_run()
    klarm.finish()
    said = run("close", "1", "--by", "ada")
    assert "is closed; run `klarm deliver" in said
    fold = Fold(JOURNAL)
    fold.update()
    (record,) = fold.incidents.values()
    assert (record.state, record.reason, record.last.by) == ("resolved", "closed", "ada")
    again = klarm.init("a", console=False)
    again.log({"kl": 0.1}, 41)
    klarm.finish()
    fold.update()
    assert [(r.state, r.reason) for r in fold.incidents.values()] == [("resolved", "closed")]


def test_a_trainer_that_brings_its_own_record_forgets_no_command() -> None:
    """As TRL's does: the rows are its own, what people said is in the journal."""
    rows = [{"kl": 3.0 if step >= 70 else 0.02 + step % 3 / 1000} for step in range(120)]
    monitor = klarm.init("a", console=False, kl_budget={"enabled": True})
    for step, row in enumerate(rows[:90]):
        monitor.log(row, step)
    (incident,) = monitor.incidents
    accept = Command(command="accept", key="1", time=0.0, by="ada", incident=incident.id)
    monitor.hand_over(accept)
    for step, row in enumerate(rows[90:100], 90):
        monitor.log(row, step)
    klarm.finish()
    so_far = events()
    again = klarm.init("a", console=False, kl_budget={"enabled": True})
    again.resume(100, list(enumerate(rows[:100])))
    for step, row in enumerate(rows[100:], 100):
        again.log(row, step)
    klarm.finish()
    assert [event.event for event in so_far] == ["opened", "resolved"]
    assert events() == so_far


def test_a_damaged_line_is_said_once_and_read_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread looks every second; the commands behind it count."""
    from klarm.monitor import command_watch

    file = tmp_path / "commands.jsonl"
    file.write_bytes(b'{"type":"command","command":"close"}\n')
    handed: list[Command] = []
    readings: list[int] = []

    def read(folder: Path, start: int, on_damage: object) -> Iterator[tuple[int, Command]]:
        readings.append(start)
        return read_commands(folder, start, on_damage)  # type: ignore[arg-type]

    monkeypatch.setattr(command_watch, "read_commands", read)
    watch = CommandWatch(tmp_path, handed.append, Notices())
    for _ in range(3):
        watch.look()
    assert readings == [0]
    said = Command(command="close", key="1", time=1.0, by="ada", incident="kaaaaaaa")
    append_command(tmp_path, said)
    for _ in range(3):
        watch.look()
    assert handed == [said]
    assert readings == [0, 0]
    assert capsys.readouterr().err == (
        "klarm: commands.jsonl is damaged at byte 0: the line is skipped. If a command had no "
        "effect, run it again.\n"
    )


def test_a_file_that_cannot_be_read_disturbs_nobody(tmp_path: Path) -> None:
    """The thread goes on, and so does training."""
    (tmp_path / "commands.jsonl").mkdir()
    handed: list[Command] = []
    watch = CommandWatch(tmp_path, handed.append, Notices(stderr=False), interval_seconds=0.01)
    watch.start()
    watch.stop(1.0)
    assert handed == []


def test_the_thread_ends_with_the_run() -> None:
    """And leaves nothing behind."""
    broken_run()
    klarm.finish()
    assert not [thread for thread in threading.enumerate() if thread.name == "klarm-commands"]
