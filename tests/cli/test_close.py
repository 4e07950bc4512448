"""`klarm close` and `klarm ack` find the incident that the user means, in any run.

Covers ack.py, which.py, runs.py and options.py too.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import klarm
from klarm.cli.group import klarm as command
from klarm.detectors import KLExplosionDetector
from klarm.journal import FORMAT, FileJournal, Started, append_command, sealed
from klarm.monitor.monitor import Monitor
from klarm.types import Command

pytestmark = pytest.mark.usefixtures("one_detector")


def broken(run: str) -> str:
    """Record a finished run with an open incident; return the id of the incident."""
    monitor = klarm.init(run, console=False)
    monitor.log({"kl": math.nan}, 0)
    klarm.finish()
    return monitor.incidents[0].id


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def test_an_id_is_found_in_any_run() -> None:
    """Its first four characters are enough."""
    first, second = broken("a"), broken("b")
    done = run("close", first[:6])
    assert done.exit_code == 0
    assert f"run a: incident 1 ({first}) on kl is closed" in done.output
    assert f"({second})" in run("close", second).output


def test_a_number_refers_to_the_chosen_run() -> None:
    """That is the latest run, unless another is named."""
    broken("a")
    broken("b")
    assert "run a: incident 1" in run("ack", "1", "--run", "a").output
    assert "run b has no incident 7; it has 1\n" in run("ack", "7", "--run", "b").output


def test_an_acknowledgement_can_be_taken_back() -> None:
    """Only one that is there; it can be given again afterwards."""
    broken("a")
    done = run("ack", "1", "--undo")
    assert done.exit_code == 1
    assert "is not acknowledged" in done.output
    assert "acknowledged by ada" in run("ack", "1", "--by", "ada").output
    assert "ack by ada" in run("incidents").output
    done = run("ack", "1", "--undo")
    assert done.exit_code == 0
    assert "is no longer acknowledged" in done.output
    assert "ack by" not in run("incidents").output
    assert "acknowledged by bob" in run("ack", "1", "--by", "bob").output
    assert "ack by bob" in run("incidents").output


def test_a_prefix_of_several_ids_lists_them() -> None:
    """The list shows how they differ."""
    for name, id_ in (("a", "kaaaa222"), ("b", "kaaaa333")):
        journal = FileJournal(Path("klarm_runs") / name, print)
        journal.record(Started(name, 1.0, "0.2.0", "n1", {}, format=FORMAT))
        monitor = Monitor(name, [KLExplosionDetector()], journal, ids=lambda *_, id_=id_: id_)
        monitor.log({"kl": math.nan}, 3)
        monitor.finish()
    done = run("close", "kaaaa")
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "Error: kaaaa could be any of these; give the id:",
        "  kaaaa222  run a, kl, critical, began at step 3",
        "  kaaaa333  run b, kl, critical, began at step 3",
    ]
    assert "run b: incident 1 (kaaaa333)" in run("close", "KAAAA3").output


def test_copies_of_a_run_are_distinguished_by_their_folders() -> None:
    """Both have the same run and the same ids."""
    id_ = broken("a")
    shutil.copytree("klarm_runs/a", "klarm_runs/a-copy")
    assert run("close", id_[:5]).output.splitlines() == [
        f"Error: {id_[:5]} could be any of these; name the folder of the run:",
        f"  {id_}  run klarm_runs/a, kl, critical, began at step 0",
        f"  {id_}  run klarm_runs/a-copy, kl, critical, began at step 0",
    ]
    assert "is closed" in run("close", id_, "--run", "klarm_runs/a-copy").output


def test_a_run_that_cannot_be_read_hides_no_incident_of_another() -> None:
    """It is named if the id is in no other run."""
    id_ = broken("a")
    Path("klarm_runs/odd").mkdir()
    Path("klarm_runs/odd/journal.jsonl").write_bytes(sealed(b'{"type":"run","format":2}'))
    said = run("close", "kzzzz").output
    assert "there is no incident kzzzz" in said
    assert "; klarm_runs/odd cannot be read" in said
    assert "is closed" in run("close", id_).output


def test_after_a_close_the_new_state_is_shown() -> None:
    """By every command, and at once."""
    id_ = broken("a")
    assert "1 incident" in run("show", "a").output
    run("close", id_, "--by", "ada")
    assert run("show", "a").output.startswith("run a: finished, no open incident")
    assert "Closed by ada." in run("show", "a", "1").output
    assert " closed " in run("incidents", "a").output


def test_a_command_that_a_run_did_not_live_to_apply_is_shown_and_can_be_given_again() -> None:
    """The page shows it so, too; the second one is recorded, so that channels are notified."""
    id_ = broken("a")
    waiting = Command(command="close", key="k1", time=1.0, by="ada", incident=id_)
    append_command(Path("klarm_runs/a"), waiting)
    assert run("show", "a").output.startswith("run a: finished, no open incident")
    assert "Closed by ada." in run("show", "a", "1").output
    assert "is closed" in run("close", id_).output
    assert "is already resolved" in run("close", id_).output


def test_an_id_that_is_too_short_or_unknown_is_an_error() -> None:
    """The message says what to give instead."""
    broken("a")
    assert "give at least 4 characters" in run("close", "kq").output
    assert "there is no incident kzzzz" in run("close", "kzzzz").output


def test_a_resolved_incident_cannot_be_closed() -> None:
    """The message says how it ended."""
    id_ = broken("a")
    run("close", id_)
    assert "is already resolved: closed at step 0" in run("close", id_).output
