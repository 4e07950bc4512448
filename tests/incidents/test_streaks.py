"""Streaks: rows in a row, counted by key."""

from __future__ import annotations

from klarm.incidents.streaks import Streaks


def test_a_key_counts_once_per_row() -> None:
    """However often it is said in it."""
    streaks = Streaks()
    streaks.add("kl")
    streaks.add("kl")
    assert streaks["kl"] == 1
    streaks.end_row(["kl"])
    streaks.add("kl")
    assert streaks["kl"] == 2


def test_who_could_have_spoken_and_did_not_loses_the_streak() -> None:
    """And who had nothing to look at keeps it."""
    streaks = Streaks()
    for key in ("kl", "reward"):
        streaks.add(key)
    streaks.end_row(["kl", "reward"])
    streaks.end_row(["kl"])
    assert (streaks["kl"], streaks["reward"]) == (0, 1)


def test_a_key_that_was_never_said_has_no_streak() -> None:
    """Asking for it does not make one."""
    streaks = Streaks()
    assert streaks["loss"] == 0
    streaks.end_row(["loss"])
    assert streaks["loss"] == 0
