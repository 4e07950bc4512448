"""Killed at random moments before a service in every mood, a run loses nothing.

`make faults` has the long form, with 1,000 kills.
"""

from __future__ import annotations

import pytest
from kills import kill_runs


def test_no_event_of_a_few_runs_that_are_killed_is_lost() -> None:
    """The short form: 6 kills."""
    outcome = kill_runs(6)
    assert outcome.lost == []
    assert outcome.stuck == []
    assert outcome.events > 5


@pytest.mark.slow
def test_no_event_is_lost_whatever_is_killed_and_however_the_service_answers() -> None:
    """40 kills; `klarm deliver` alone and the next start alone bring everything through."""
    outcome = kill_runs(40)
    assert outcome.lost == []
    assert outcome.stuck == []
    assert outcome.events > 100
    assert {"refuses", "hangs", "hangs up", "busy", "broken"} <= outcome.moods.keys()
    # What is seen twice was sent by a process that was killed, or its answer was lost.
    assert outcome.doubled - outcome.doubled_by_answers <= 40
