"""How far a replay has come: nothing for a moment, then a bar."""

from __future__ import annotations

from itertools import count

from klarm.cli.progress import Progress


def test_a_bar_appears_after_two_seconds_and_disappears() -> None:
    """By a clock that moves a second with every look; the bar knows the size of the log."""
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
    """Not even that it clears the line."""
    shown: list[str] = []
    assert len(list(Progress(9, clock=lambda: 1.0, show=shown.append).over(range(99)))) == 99
    assert shown == []


def test_rows_are_counted_if_the_size_is_unknown() -> None:
    """As for a journal."""
    shown: list[str] = []
    ticks = count(step=5)
    list(Progress(0, clock=lambda: float(next(ticks)), show=shown.append).over(range(2000)))
    assert shown[-2:] == ["2,000 rows", ""]


def test_it_is_cleared_when_the_replay_fails() -> None:
    """So that the message has a line of its own."""
    shown: list[str] = []
    ticks = count(step=5)
    rows = Progress(0, clock=lambda: float(next(ticks)), show=shown.append).over(range(9))
    next(rows)
    rows.close()
    assert shown == ["1 rows", ""]
