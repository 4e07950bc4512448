"""The progress bar of a replay, which appears after a moment."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from klarm.cli.progress import Progress
from test_console import shown_on_a_terminal


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


def test_a_slow_replay_shows_it_on_a_terminal() -> None:
    """Here two seconds pass immediately. Nothing is left of it at the end."""
    rows = "".join(f"{step},0.0{step % 3 + 1}\n" for step in range(60))
    Path("log.csv").write_text(f"step,kl\n{rows}")
    code = """
from klarm.cli import group, progress
progress._AFTER_SECONDS = progress._EVERY_SECONDS = 0.0
group.klarm(["replay", "log.csv"])
"""
    shown = shown_on_a_terminal(code)
    assert "100%  60 rows" in shown
    assert "█ 100%" not in shown.rpartition("\x1b[K")[2]
    assert "60 rows replayed" in shown
