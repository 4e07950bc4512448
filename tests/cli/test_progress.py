"""The progress bar of `klarm replay` and `klarm follow`, which appears after a moment."""

from __future__ import annotations

import math
from functools import partial
from itertools import count
from pathlib import Path

import pytest

import klarm
from cli.commands import run_klarm, run_on_terminal
from klarm.cli.progress import Progress
from klarm.cli.stopping import Stopping
from klarm.cli.watch import Watch
from klarm.sources.follow import Follower


def test_a_bar_appears_after_two_seconds_and_disappears() -> None:
    """The clock of the test advances a second per call; the size of the log is known."""
    shown: list[str] = []
    ticks = count()
    progress = Progress(1000, clock=lambda: float(next(ticks)), show=shown.append)
    passed = []
    for number in progress.over(range(10)):
        progress.on_bytes(100)
        passed.append(number)
    assert passed == list(range(10))
    assert shown[0].endswith(" 10%  2 rows")
    assert shown[0].count("█") == 3
    assert shown[-1] == ""


def test_a_quick_replay_shows_no_bar() -> None:
    """It does not even clear the line."""
    shown: list[str] = []
    assert len(list(Progress(9, clock=lambda: 1.0, show=shown.append).over(range(99)))) == 99
    assert shown == []


def test_rows_are_counted_if_the_size_is_unknown() -> None:
    """A journal is an example."""
    shown: list[str] = []
    ticks = count(step=5)
    list(Progress(0, clock=lambda: float(next(ticks)), show=shown.append).over(range(2000)))
    assert shown[-2:] == ["2,000 rows", ""]


def test_it_is_cleared_when_the_replay_fails() -> None:
    """So the error message is on its own line."""
    shown: list[str] = []
    ticks = count(step=5)
    rows = Progress(0, clock=lambda: float(next(ticks)), show=shown.append).over(range(9))
    next(rows)
    rows.close()
    assert shown == ["1 rows", ""]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two seconds pass immediately."""
    monkeypatch.setattr("klarm.cli.progress._AFTER_SECONDS", 0.0)
    monkeypatch.setattr("klarm.cli.progress._EVERY_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
def test_a_slow_replay_shows_it_on_a_terminal() -> None:
    """Here two seconds pass immediately. Nothing is left of it at the end."""
    rows = "".join(f"{step},0.0{step % 3 + 1}\n" for step in range(60))
    Path("log.csv").write_text(f"step,kl\n{rows}")
    code, shown = run_on_terminal("replay", "log.csv")
    assert code == 0
    assert "100%  60 rows" in shown
    assert "█ 100%" not in shown.rpartition("\x1b[K")[2]
    assert "60 rows replayed" in shown


ONCE = ["--once"]
UNTIL_IDLE = ["--until-idle", "0.1", "--poll", "0.02"]


def write_log(name: str = "log.csv") -> None:
    """Write 60 rows, with an incident in the middle."""
    kl = {step: math.nan if step == 30 else 0.01 * (step % 3 + 1) for step in range(60)}
    rows = "".join(f"{step},{value}\n" for step, value in kl.items())
    Path(name).write_text(f"step,kl\n{rows}")


def followed(*arguments: str, given: bytes = b"") -> str:
    """Follow a log on a wide terminal; return what is shown there."""
    code, shown = run_on_terminal("follow", *arguments, given=given, columns=200)
    assert code == 0
    return shown


def left_on_screen(shown: str) -> list[str]:
    """Return the lines that remain on a terminal, on which progress clears its line each time."""
    return [line.rpartition("\x1b[K")[2] for line in shown.split("\n")]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("how", [ONCE, UNTIL_IDLE], ids=["once", "until idle"])
def test_the_first_pass_over_a_followed_log_shows_it(how: list[str]) -> None:
    """It is gone at the end, and leaves the box of an incident as it is without it."""
    write_log()
    shown = followed("log.csv", *how)
    assert "100%  60 rows" in shown
    lines = left_on_screen(shown)
    assert not any("█" in line or " rows\x1b" in line for line in lines)
    top = next(at for at, line in enumerate(lines) if "╭" in line)
    bottom = next(at for at, line in enumerate(lines) if "╰" in line)
    assert "klarm incident 1 on kl opened, critical, step 30" in lines[top]
    assert all("│" in line for line in lines[top + 1 : bottom])
    assert " rows" in shown.partition("╰")[2]  # it goes on below the box


@pytest.mark.usefixtures("at_once")
def test_rows_that_are_already_recorded_count() -> None:
    """Looking for new ones takes as long."""
    write_log()
    first = followed("log.csv", "--once")
    again = followed("log.csv", "--once")
    assert "100%  60 rows" in first
    assert "100%  60 rows" in again
    assert "nothing new since step 59" in left_on_screen(again)[-2]


@pytest.mark.usefixtures("at_once")
def test_reading_a_long_journal_shows_it() -> None:
    """`klarm show` reads it once; later its summary is there."""
    monitor = klarm.init("long", console=False)
    for step in range(60):
        monitor.log({"kl": 0.01}, step)
    klarm.finish()
    code, shown = run_on_terminal("show", "long")
    assert code == 0
    assert "█ 100%" in shown
    assert not any("█" in line for line in left_on_screen(shown))


def test_rows_that_are_added_later_show_none() -> None:
    """They come one by one, as training goes."""
    write_log()
    shown: list[str] = []
    ticks = count(step=5)
    progress = Progress(0, clock=lambda: float(next(ticks)), show=shown.append)
    journal = Path("klarm_runs/log/journal.jsonl")
    follower = Follower(Path("log.csv"), journal, pytest.fail, on_row=progress.on_row)
    monitor = partial(klarm.init, "log", console=False)
    watch = Watch(follower, monitor, on_read=progress.end)
    assert watch.poll(Stopping())
    assert shown[-2:] == ["60 rows", ""]
    with Path("log.csv").open("a") as log:
        log.write("60,0.01\n")
    assert watch.poll(Stopping())
    assert follower.rows_read == 61
    assert shown[-2:] == ["60 rows", ""]


@pytest.mark.usefixtures("at_once")
def test_no_bar_where_it_would_disturb() -> None:
    """Not for stdin, which has no size; nor without the console."""
    write_log()
    rows = Path("log.csv").read_bytes()
    piped = followed("-", "--run", "a", "--poll", "0.02", given=rows)
    assert "run a ended after 60 rows" in piped
    assert "█" not in piped
    assert "█" not in followed("log.csv", "--once", "--set", "console=false")
    done = run_klarm("follow", "log.csv", "--once", "--run", "b")
    assert "run b as of step 59" in done.stderr
    assert "█" not in done.stdout + done.stderr
