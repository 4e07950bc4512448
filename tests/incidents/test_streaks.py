"""Streaks: rows in a row, counted by key."""

from __future__ import annotations

from klarm.incidents.streaks import Streaks

KL, REWARD, ALL = ("kl_budget", "warning"), ("reward_drift", "warning"), ("", "warning")


def test_a_key_counts_once_per_row() -> None:
    """However many alerts the row has."""
    streaks = Streaks()
    streaks.add(KL)
    streaks.add(KL)
    assert streaks[KL] == 1
    streaks.end_row({"kl_budget"})
    streaks.add(KL)
    assert streaks[KL] == 2


def test_a_detector_with_a_value_but_no_alert_loses_its_streak() -> None:
    """A detector without a value keeps it; the streak of the signal ends with any row."""
    streaks = Streaks()
    for key in (KL, REWARD, ALL):
        streaks.add(key)
    streaks.end_row({"kl_budget", "reward_drift"})
    streaks.end_row({"kl_budget"})
    assert (streaks[KL], streaks[REWARD], streaks[ALL]) == (0, 1, 0)


def test_an_unknown_key_has_no_streak() -> None:
    """Reading it does not create one."""
    streaks = Streaks()
    assert streaks[KL] == 0
    streaks.end_row({"kl_budget"})
    assert streaks[KL] == 0
