"""Streaks: rows in a row, counted by key."""

from __future__ import annotations

from klarm.incidents.streaks import Streaks

KL, REWARD, ALL = ("kl_budget", "warning"), ("reward_drift", "warning"), ("", "warning")


def test_a_key_counts_once_per_row() -> None:
    """However often it is said in it."""
    streaks = Streaks()
    streaks.add(KL)
    streaks.add(KL)
    assert streaks[KL] == 1
    streaks.end_row({"kl_budget"})
    streaks.add(KL)
    assert streaks[KL] == 2


def test_who_could_have_spoken_and_did_not_loses_the_streak() -> None:
    """And who had nothing to look at keeps it; what anybody may say is over with any row."""
    streaks = Streaks()
    for key in (KL, REWARD, ALL):
        streaks.add(key)
    streaks.end_row({"kl_budget", "reward_drift"})
    streaks.end_row({"kl_budget"})
    assert (streaks[KL], streaks[REWARD], streaks[ALL]) == (0, 1, 0)


def test_a_key_that_was_never_said_has_no_streak() -> None:
    """Asking for it does not make one."""
    streaks = Streaks()
    assert streaks[KL] == 0
    streaks.end_row({"kl_budget"})
    assert streaks[KL] == 0
