"""What an integration does when an incident is critical, in any framework."""

from __future__ import annotations

from pathlib import Path

import pytest

import klarm
from klarm.detectors import TrustRegionDetector
from klarm.integrations.reaction import Reaction, checked_settings
from klarm.monitor import Monitor


def watched(kl_old: list[float], reaction: Reaction) -> list[int]:
    """Return the steps at which there is something to do."""
    monitor = Monitor("a", [TrustRegionDetector(resolve_after=2)])
    due = []
    for step, value in enumerate(kl_old):
        monitor.log({"kl_old": value}, step)
        if reaction.due(monitor):
            due.append(step)
    return due


def test_each_incident_is_acted_upon_once() -> None:
    """When it becomes critical, not while it lasts; and so is the next."""
    course = [0.01, 0.5, 0.5, 0.5, *[0.01] * 5, 0.5, 0.5, 0.5]
    assert watched(course, Reaction("checkpoint", None)) == [2, 10]
    assert watched(course, Reaction("stop", None)) == [2, 10]
    assert watched(course, Reaction("none", None)) == []


def test_a_warning_is_no_reason_to_act() -> None:
    """One odd update passes."""
    assert watched([0.01, 0.5, 0.01, 0.01, 0.5, 0.01], Reaction("stop", None)) == []


def test_a_checkpoint_lies_beside_the_journal_unless_told_otherwise(tmp_path: Path) -> None:
    """By its step, in a folder of its own."""
    settings, monitor = checked_settings("a", None, {}, "here"), Monitor("a", [])
    beside = Reaction("stop", None).checkpoint_path(monitor, settings, 7)
    assert beside == tmp_path / "klarm_runs" / "a" / "checkpoints" / "critical-7"
    elsewhere = Reaction("stop", "mine").checkpoint_path(monitor, settings, 7)
    assert elsewhere == tmp_path / "mine" / "critical-7"


def test_wrong_settings_name_the_place_the_value_and_the_remedy() -> None:
    """While nothing has started."""
    with pytest.raises(klarm.ConfigError, match=r"on_critical is 'pause': it must be \"none\""):
        Reaction("pause", None)  # type: ignore[arg-type]
    with pytest.raises(klarm.ConfigError, match=r"KlarmCallback.*did you mean trust_region"):
        checked_settings(None, None, {"trust_regio": {}}, "KlarmCallback()")
    with pytest.raises(klarm.ConfigError, match="a/b"):
        checked_settings("a/b", None, {}, "KlarmCallback()")


def test_what_was_critical_when_a_run_is_taken_up_is_passed_over() -> None:
    """Whoever takes it up has been told; what comes later is acted upon."""
    monitor, reaction = Monitor("a", [TrustRegionDetector(resolve_after=2)]), Reaction("stop")
    for step in range(3):
        monitor.log({"kl_old": 0.5}, step)
    reaction.pass_over(monitor)
    assert reaction.due(monitor) == []
    for step, value in enumerate([*[0.01] * 5, 0.5, 0.5, 0.5], start=3):
        monitor.log({"kl_old": value}, step)
    assert [incident.started for incident in reaction.due(monitor)] == [8]
