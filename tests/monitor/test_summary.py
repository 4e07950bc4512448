"""A run in a few words (summary.py), and its last lines (run_summary.py).

tests/test_notebook.py has the table of a notebook.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import klarm
from klarm.detectors import KLBudgetDetector, KLExplosionDetector, KLNegativeDetector
from klarm.incidents import IncidentRules
from klarm.monitor.summary import alerts_in_sum, incidents_and_where, not_confirmed

pytestmark = pytest.mark.usefixtures("one_detector")


def test_the_end_names_the_incidents_and_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are over too, up to where they were, and a path that a shell can take."""
    rules = {"resolve_after": 3, "reopen_within": 10}
    with klarm.init("my run", incidents=rules) as watched:
        for step in range(30):
            watched.log({"kl": math.nan if step in (5, 29) else 0.1}, step)
    assert capsys.readouterr().err.splitlines()[-1] == (
        "klarm: run my run ends after 30 steps: 2 incidents (kl, critical, steps 5 to 8; "
        "kl, critical, since step 29, unresolved when the run ended); "
        "see klarm incidents 'klarm_runs/my run'"
    )


def test_a_run_without_a_folder_names_no_command() -> None:
    """There is nothing that a command could read."""
    assert incidents_and_where([], None) == "no incident"
    assert alerts_in_sum({"warning": 1, "critical": 0}, None) == "1 alert, 0 critical"


def test_the_command_that_lists_alerts_can_be_pasted() -> None:
    """A folder's name may contain anything."""
    said = alerts_in_sum({"warning": 1, "critical": 2}, Path("runs/it's mine"))
    assert said.startswith("3 alerts, 2 critical; list them with: klarm replay ")
    assert said.endswith("""'runs/it'"'"'s mine' --alerts""")


def test_the_end_says_why_alerts_opened_no_incident(capsys: pytest.CaptureFixture[str]) -> None:
    """There were fewer than their detector needs."""
    with klarm.init("a") as watched:
        for step, kl in enumerate([*[0.4, 0.6] * 50, 5.0]):
            watched.log({"kl": kl}, step)
    assert (
        "klarm: 1 alert, 1 critical, not confirmed: kl_explosion needs 50 steps in a row with an "
        "alert; list them with: klarm replay klarm_runs/a --alerts\n"
    ) in capsys.readouterr().err


def test_only_detectors_with_too_few_alerts_are_named() -> None:
    """Enough of them may have been excused: that is not for a line to explain."""
    detectors = [KLBudgetDetector(), KLExplosionDetector(), KLNegativeDetector()]
    rules = IncidentRules()
    few = {"kl_budget": 9, "kl_explosion": 50, "kl_negative": 4}
    assert not_confirmed(few, detectors, rules) == (
        "not confirmed: kl_budget needs 10 steps in a row with an alert, kl_negative 5"
    )
    assert not_confirmed({"kl_explosion": 50}, detectors, rules) == ""
    assert not_confirmed({}, detectors, rules) == ""
