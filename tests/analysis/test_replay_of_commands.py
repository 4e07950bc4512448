"""Replay equals live whatever commands the run got, and whenever: replay.py."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import klarm
from klarm import api
from klarm.analysis.replay import Replay, ids_in, replay
from klarm.cli.group import klarm as command
from klarm.config.layers import load
from klarm.journal.commands import append_command
from klarm.journal.crash import record_crash
from klarm.journal.reading import read_journal
from klarm.monitor.monitor import Monitor
from klarm.sources import read_log
from klarm.types import Command, Event

JOURNAL = Path("klarm_runs/a/journal.jsonl")


def train(start: int, stop: int) -> Monitor:
    """Log steps of a run that breaks at step 100."""
    monitor = klarm.init("a", console=False)
    for step in range(start, stop):
        kl = 3.0 if step >= 100 else 0.02 + step % 3 / 1000
        monitor.log({"kl": kl, "reward": 0.5 + step % 7 / 100}, step)
    return monitor


def crash() -> None:
    """End the process as kill -9 does: nothing more is written."""
    monitor = api._current
    assert monitor is not None
    assert monitor._command_watch is not None
    monitor._command_watch.stop(1.0)
    monitor._fall_silent()
    api._replace_current(None)


def replayed() -> Replay:
    return replay(
        read_log(JOURNAL.parent, pytest.fail), lambda known: load(recorded=known), ids_in(JOURNAL)
    )


def recorded() -> list[Event]:
    return [record for record in read_journal(JOURNAL) if isinstance(record, Event)]


@pytest.mark.parametrize("flags", [[], ["--accept"]], ids=["close", "accept"])
@pytest.mark.parametrize("end", [klarm.finish, crash])
def test_a_run_that_is_closed_while_nobody_trains_it(flags: list[str], end: object) -> None:
    """Right after `klarm close`, and after the run was resumed."""
    train(0, 150)
    end()  # type: ignore[operator]
    done = CliRunner().invoke(command, ["close", "1", "--by", "ada", *flags])
    assert done.exit_code == 0, done.output
    found = replayed()
    assert found.events == recorded()
    assert found.incidents[0].reason == ("accepted" if flags else "closed")
    train(150, 200)
    klarm.finish()
    assert replayed().events == recorded()


def test_a_crash_between_a_command_and_the_next_row() -> None:
    """The command and its event are in the journal, and count."""
    monitor = train(0, 130)
    given = Command(command="close", key="1", time=0.0, by="ada", incident=monitor.incidents[0].id)
    monitor.apply(msgspec.structs.replace(given, step=130))
    crash()
    assert replayed().events == recorded()
    train(130, 160)
    klarm.finish()
    assert replayed().events == recorded()
    assert [event.reason for event in recorded() if event.signal == "kl"][1] == "closed"


def test_a_process_that_ends_without_a_step_applies_its_commands() -> None:
    """It never learnt where the run goes on; the incident ends all the same."""
    monitor = train(0, 130)
    crash()
    given = Command(command="close", key="1", time=0.0, by="ada", incident=monitor.incidents[0].id)
    append_command(JOURNAL.parent, given)
    klarm.init("a", console=False)
    klarm.finish()
    assert [(event.event, event.reason) for event in recorded()][1:] == [("resolved", "closed")]
    assert replayed().events == recorded()


def test_what_is_watched_is_said_of_the_process_that_trained() -> None:
    """One that only recorded the crash has seen no row."""
    train(0, 150)
    crash()
    record_crash(JOURNAL.parent, print)
    found = replayed()
    assert found.events == recorded()
    assert "kl_explosion" in found.watched
    assert found.names == ["kl", "reward"]
