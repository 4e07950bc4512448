"""A run in a few words (summary.py), and its last lines (run_summary.py).

tests/test_notebook.py has the table of a notebook.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from click.testing import CliRunner

import klarm
from klarm.cli.group import klarm as command
from klarm.detectors import KLBudgetDetector, KLExplosionDetector, KLNegativeDetector
from klarm.detectors.gradient_norm_spike import GradientNormSpikeDetector
from klarm.incidents import IncidentRules
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.monitor.summary import alerts_in_sum, incidents_and_where, why_no_incident
from klarm.wording import incidents_in_sum

pytestmark = pytest.mark.usefixtures("one_detector")


def test_the_end_names_the_incidents_and_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are over too, up to where they were, and a path that a shell can take."""
    rules = {"resolve_after": 3, "reopen_within": 10}
    with klarm.init("my run", incidents=rules) as watched:
        for step in range(30):
            watched.log({"kl": math.nan if step in (5, 29) else 0.1}, step)
    assert capsys.readouterr().err.splitlines()[-3:] == [
        "klarm: run my run ended after 30 rows: 2 incidents; "
        "see klarm incidents 'klarm_runs/my run'",
        "  1 on kl: critical, steps 5 to 8, recovered",
        "  2 on kl: critical, began at step 29, unresolved",
    ]


def test_a_run_without_a_folder_names_no_command() -> None:
    """There is nothing that a command could read."""
    assert incidents_and_where([], None) == "no incident"
    assert alerts_in_sum({"warning": 1, "critical": 0}, None) == "1 alert (0 critical)"


def test_the_command_that_lists_alerts_can_be_pasted() -> None:
    """A folder's name may contain anything."""
    said = alerts_in_sum({"warning": 1, "critical": 2}, Path("runs/it's mine"))
    assert said.startswith("3 alerts (2 critical); list them with: klarm replay ")
    assert said.endswith("""'runs/it'"'"'s mine' --alerts""")


def test_the_end_says_why_alerts_opened_no_incident(capsys: pytest.CaptureFixture[str]) -> None:
    """There were fewer than their detector needs."""
    with klarm.init("a") as watched:
        for step, kl in enumerate([*[0.4, 0.6] * 50, 5.0]):
            watched.log({"kl": kl}, step)
    assert (
        "klarm: 1 alert (1 critical) opened no incident; list it with: klarm replay klarm_runs/a "
        "--alerts\n  kl_explosion needs 50 consecutive rows with an alert\n"
    ) in capsys.readouterr().err


def test_detectors_with_too_few_alerts_are_named_and_those_that_were_excused() -> None:
    """Nothing is said of others, for example of alerts with pauses."""
    detectors = [KLBudgetDetector(), KLExplosionDetector(), KLNegativeDetector()]
    rules = IncidentRules()
    few = {"kl_budget": 9, "kl_explosion": 50, "kl_negative": 4}
    assert why_no_incident(few, {}, detectors, rules) == [
        "kl_budget needs 10 consecutive rows with an alert",
        "kl_negative needs 5 consecutive rows with an alert",
    ]
    assert why_no_incident({"kl_explosion": 50}, {}, detectors, rules) == []
    assert why_no_incident({}, {}, detectors, rules) == []
    excused = [
        "kl_explosion alerts are ignored while the reward rises along with KL, or while KL is small"
    ]
    assert why_no_incident({"kl_explosion": 50}, {"kl_explosion": 50}, detectors, rules) == excused
    for count in (1, 2):  # they would have opened none in any case
        assert why_no_incident({"kl_explosion": 2}, {"kl_explosion": count}, detectors, rules) == [
            "kl_explosion needs 50 consecutive rows with an alert"
        ]
    assert (
        why_no_incident(
            {"kl_explosion": 2},
            {"kl_explosion": 2},
            detectors,
            rules,
            decisive={"kl_explosion"},
        )
        == excused
    )


@pytest.mark.parametrize("replayed", [False, True])
def test_the_end_says_why_critical_alerts_opened_no_incident(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, replayed: bool
) -> None:
    """Entropy collapses while the reward rises, and no KL is logged."""
    monkeypatch.delenv("KLARM_ENTROPY_COLLAPSE__ENABLED")
    with klarm.init("a") as watched:
        for step in range(300):
            entropy = 2.0 * 0.9 ** max(0, step - 150) + 0.02
            reward = 0.5 + 0.02 * min(25, max(0, step - 150)) + 0.01 * (step % 3)
            watched.log({"entropy": entropy, "reward": reward}, step)
    said = capsys.readouterr().err
    if replayed:
        said = CliRunner().invoke(command, ["replay", "klarm_runs/a"]).output
    assert "61 critical" in said
    assert "opened no incident" in said
    assert (
        "\n  entropy_collapse alerts are ignored while the reward is near its best and KL is low "
        "or not logged\n"
    ) in said


def test_a_metric_that_stays_up_is_not_called_recovered() -> None:
    """Gradients need not come down for an incident to end, and are at a new level then."""
    detector = GradientNormSpikeDetector(baseline_mode="rolling", confirm_steps=2)
    watched = Monitor("a", [detector], MemoryJournal())
    for step in range(200):
        watched.log({"grad_norm": (0.5 if step < 100 else 1.1) + 0.1 * (-1) ** step}, step)
    assert incidents_in_sum(watched.incidents) == (
        "1 incident\n  1 on grad_norm: warning, steps 100 to 130, resolved at a new level"
    )
    assert "resolved (at a new level)" in watched.incidents[0]._repr_html_()


def test_an_incident_that_reopens_is_no_longer_called_at_a_new_level() -> None:
    """It is open, and how it ended before is of no interest."""
    detector = GradientNormSpikeDetector(baseline_mode="rolling", confirm_steps=2)
    watched = Monitor("a", [detector], MemoryJournal())
    for step in range(150):
        level = 0.5 if step < 100 else 1.1 if step < 140 else 5.0
        watched.log({"grad_norm": level + 0.1 * (-1) ** step}, step)
    (incident,) = watched.incidents
    assert (incident.state, incident.started) == ("open", 100)
    assert not incident.at_new_level
    assert "new level" not in incident._repr_html_()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_end_says_once_that_a_negative_entropy_was_hardly_watched(
    capsys: pytest.CaptureFixture[str], enabled: bool
) -> None:
    """Otherwise "no incident" would be read as a judgement of its level."""
    with klarm.init("a", entropy_collapse={"enabled": enabled}) as watched:
        for step in range(40):
            watched.log({"kl": 0.1 + step % 3 / 100, "entropy": 0.5 - step / 20}, step)
    said = capsys.readouterr().err
    assert said.count("entropy was below 0") == enabled
    assert said.count("fall by 10 nats or more within 100 rows") == enabled


def test_a_positive_entropy_is_watched_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    """So nothing is said of it."""
    with klarm.init("a", entropy_collapse={"enabled": True}) as watched:
        for step in range(40):
            watched.log({"kl": 0.1 + step % 3 / 100, "entropy": 0.5 + step % 5 / 50}, step)
    assert "entropy was below" not in capsys.readouterr().err
