"""`klarm prune` deletes old runs after asking, and never one that is still training."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import klarm
from klarm.cli.group import klarm as command
from klarm.store import FolderStore

DAY = 86_400.0


def record(name: str, *, days_ago: float = 0.0, finish: bool = True) -> Path:
    klarm.init(name, console=False, channels={"hook": {"type": "webhook", "url": "http://[::1]:9"}})
    for step in range(5):
        klarm.log({"kl": 0.1}, step)
    if finish:
        klarm.finish(timeout=0.1)
    folder = Path("klarm_runs") / name
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - days_ago * DAY,) * 2)
    return folder


def prune(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(command, ["prune", *arguments], input=answer)


def test_old_runs_are_deleted_after_confirmation() -> None:
    """Newer runs are kept."""
    old, new = record("old", days_ago=40), record("new", days_ago=2)
    done = prune(answer="y\n")
    assert done.exit_code == 0, done.output
    assert "old  last written 40 d ago\n" in done.stdout
    assert "Delete 1 run? " in done.output
    assert "deleted 1 run" in done.stdout
    assert not old.exists()
    assert (new / "journal.jsonl").is_file()


@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_nothing_is_deleted_without_confirmation(answer: str) -> None:
    """ "n" and an empty answer both mean no."""
    old = record("old", days_ago=40)
    done = prune(answer=answer)
    assert "nothing was deleted" in done.stdout
    assert (old / "journal.jsonl").is_file()


def test_a_dry_run_only_lists_them() -> None:
    """It neither asks nor deletes."""
    old = record("old", days_ago=40)
    done = prune("--dry-run", "--yes")
    assert (done.exit_code, done.output) == (0, "  old  last written 40 d ago\n")
    assert (old / "journal.jsonl").is_file()


def test_nothing_is_deleted_without_a_terminal_to_ask() -> None:
    """A cron job without --yes is an example."""
    old = record("old", days_ago=40)
    assert prune(answer="").exit_code != 0
    assert (old / "journal.jsonl").is_file()


def test_yes_skips_the_question_and_the_duration_can_be_set() -> None:
    """This is for cron jobs."""
    record("a", days_ago=3)
    record("b", days_ago=1)
    done = prune("--older-than", "2d", "--yes")
    assert "Delete" not in done.output
    assert [path.name for path in Path("klarm_runs").iterdir() if path.is_dir()] == ["b"]
    assert "no run in klarm_runs is older than 2d" in prune("--older-than", "2d").stdout


def test_seconds_are_a_duration_too() -> None:
    """A newcomer who has just made a run tries this."""
    record("a", days_ago=0.001)
    record("b", days_ago=0)
    done = prune("--older-than", "60s", "--yes")
    assert done.exit_code == 0, done.output
    assert [path.name for path in Path("klarm_runs").iterdir() if path.is_dir()] == ["b"]


def test_a_live_run_is_never_deleted() -> None:
    """It is kept even if it has not logged for a long time, such as while waiting for a GPU."""
    live = record("live", days_ago=40, finish=False)
    done = prune("--yes")
    assert done.exit_code == 1
    assert "live is kept: a process may be using it" in done.stderr
    assert (live / "journal.jsonl").is_file()
    klarm.log({"kl": 0.2})
    klarm.finish(timeout=0.1)
    assert '"kl":0.2' in (live / "journal.jsonl").read_text()


def test_other_files_are_kept() -> None:
    """Examples are a checkpoint in the folder, and the target of a link."""
    old = record("old", days_ago=40)
    (old / "model.pt").write_text("weights")
    elsewhere = record("moved", days_ago=40).rename("elsewhere")
    Path("klarm_runs/moved").symlink_to(elsewhere.absolute())
    done = prune("--yes")
    assert "klarm_runs/old is kept: it holds files that are not klarm's" in done.stderr
    assert [path.name for path in old.iterdir()] == ["model.pt"]
    assert (elsewhere / "journal.jsonl").is_file()


def test_an_invalid_duration_is_a_one_line_error() -> None:
    """Steps are not a duration here."""
    for span in ("soon", "200steps"):
        done = prune("--older-than", span)
        assert done.exit_code == 2
        assert f"--older-than '{span}' is not a duration; try 30min, 12h or 30d" in done.output


def test_the_records_of_the_page_are_deleted_too() -> None:
    """No file of klarm is left, and no summary of the run in the user's cache."""
    old = record("old", days_ago=40)
    store = FolderStore(old.parent)
    marks = store.path(old.name, "false_alarms")
    marks.touch()
    os.utime(marks, (0.0, 0.0))
    store.summary(old.name, b"what was known of it")
    assert store.summary(old.name) == b"what was known of it"
    assert prune("--yes").exit_code == 0
    assert not old.exists()
    assert store.summary(old.name) == b""
