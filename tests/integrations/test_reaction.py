"""The reaction of a hook to a critical incident, in any framework."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

import klarm
from klarm.console import Console
from klarm.detectors import TrustRegionDetector
from klarm.integrations.base import checked_settings
from klarm.integrations.reaction import Reaction
from klarm.monitor.monitor import Monitor
from recorded_lines import lines_of


def watched(kl_old: list[float], reaction: Reaction) -> list[int]:
    """Return the steps at which the hook reacts."""
    monitor = Monitor("a", [TrustRegionDetector(resolve_after=2)])
    due = []
    for step, value in enumerate(kl_old):
        monitor.log({"kl_old": value}, step)
        if reaction.due(monitor):
            due.append(step)
    return due


def test_each_incident_is_handled_once() -> None:
    """The hook reacts when it becomes critical, and again if it comes back after a recovery."""
    course = [0.01, 0.5, 0.5, 0.5, *[0.01] * 5, 0.5, 0.5, 0.5]
    assert watched(course, Reaction("checkpoint", None)) == [2, 10]
    assert watched(course, Reaction("stop", None)) == [2, 10]
    assert watched(course, Reaction("none", None)) == []


def test_a_warning_triggers_no_reaction() -> None:
    """A single odd update has no effect."""
    assert watched([0.01, 0.5, 0.01, 0.01, 0.5, 0.01], Reaction("stop", None)) == []


def test_a_checkpoint_is_saved_beside_the_journal_by_default(tmp_path: Path) -> None:
    """Its folder is named after the step."""
    settings, monitor = checked_settings("", "a", None, {}, "here"), Monitor("a", [])
    beside = Reaction("stop", None).checkpoint_path(monitor, settings, 7)
    assert beside == tmp_path / "klarm_runs" / "a" / "checkpoints" / "critical-7"
    elsewhere = Reaction("stop", "mine").checkpoint_path(monitor, settings, 7)
    assert elsewhere == tmp_path / "mine" / "critical-7"


def test_an_incident_that_is_critical_when_a_run_resumes_is_ignored() -> None:
    """Whoever resumed the run knows of it; later incidents are handled."""
    monitor, reaction = Monitor("a", [TrustRegionDetector(resolve_after=2)]), Reaction("stop")
    for step in range(3):
        monitor.log({"kl_old": 0.5}, step)
    reaction.pass_over(monitor, monitor, patience=4)
    assert reaction.due(monitor) == []
    for step, value in enumerate([*[0.01] * 5, 0.5, 0.5, 0.5], start=3):
        monitor.log({"kl_old": value}, step)
        due = reaction.due(monitor)
        assert bool(due) == (step == 9)
    assert [(incident.started, incident.number) for incident in monitor.critical] == [(0, 1)]


@pytest.mark.parametrize(
    ("course", "due"),
    [
        ([0.5] * 12, [10]),  # five steps later it alerts still
        ([0.5, 0.01, 0.5, 0.01, 0.5, 0.01, 0.01, 0.01], []),  # it calms down in time
    ],
)
def test_an_ignored_incident_is_handled_if_it_persists(course: list[float], due: list[int]) -> None:
    """It is handled once, if alerts continue after the grace period."""
    monitor = Monitor("a", [TrustRegionDetector(resolve_after=3)])
    for step in range(5):
        monitor.log({"kl_old": 0.5}, step)
    reaction, acted = Reaction("stop"), []
    reaction.pass_over(monitor, None, patience=5)
    for step, value in enumerate(course, start=5):
        monitor.log({"kl_old": value}, step)
        if reaction.due(monitor):
            acted.append(step)
    assert acted == due


def test_a_resumed_run_reports_open_incidents_and_the_good_checkpoint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is not stopped again immediately by the same incident."""
    monitor = klarm.init("a")
    for step in range(3):
        monitor.log({"kl_old": 0.01}, step)
    Path("good").touch()
    monitor.checkpoint(2, "good")
    for step in range(3, 6):
        monitor.log({"kl_old": 0.5}, step)
    klarm.finish()
    capsys.readouterr()
    monitor, reaction = klarm.init("a"), Reaction("stop")
    for step in range(6, 8):
        reaction.take_up(monitor, step, patience=20)
        monitor.log({"kl_old": 0.5}, step)
        assert reaction.due(monitor) == []
    assert (
        capsys.readouterr().err.count(
            "klarm: incident 1 on kl_old (critical, began at step 3) is still open and is not "
            "acted upon again for 20 rows; last good checkpoint: good\n"
        )
        == 1
    )
    assert [line["step"] for line in lines_of("a", "resume")] == [6]


@pytest.mark.parametrize(("on_critical", "doing"), [("stop", "stops"), ("checkpoint", "goes on")])
def test_the_reaction_is_reported_even_if_saving_failed(
    on_critical: Literal["stop", "checkpoint"], doing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report has the path and the last good checkpoint."""
    monitor, reaction = (
        Monitor("a", [TrustRegionDetector()], console=Console()),
        Reaction(on_critical),
    )
    monitor.checkpoint(2, "bucket://good")
    for step in range(3, 7):
        monitor.log({"kl_old": 0.5}, step)
    due = reaction.due(monitor)
    reaction.act(monitor, due, 6, Path("mine/bad"), lambda path: path.write_text("state"))
    with pytest.raises(ZeroDivisionError):
        reaction.act(monitor, due, 6, Path("mine/worse"), lambda _: 1 / 0)
    said = [line for line in capsys.readouterr().err.splitlines() if "training" in line]
    assert said == [
        f"klarm: kl_old is critical: training {doing}, {kept}, at step 6; last good checkpoint: "
        "bucket://good"
        for kept in ("with a checkpoint at mine/bad", "without a checkpoint")
    ]
    assert Path("mine/bad").read_text() == "state"
