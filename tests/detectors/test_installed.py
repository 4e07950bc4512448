"""Detectors of other packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import klarm
from klarm.cli.group import klarm as command
from klarm.config import load
from own_parts import GOOD, PACKAGE, install
from recorded_lines import lines_of


def test_a_package_adds_a_detector_and_a_channel(site: None) -> None:
    """They are available once it is installed, with their sections, also in commands."""
    install("late_package", PACKAGE, GOOD)
    Path("klarm.yaml").write_text("lateness: {seconds: 5}\nchannels: {void: {}}\n")
    with klarm.init("a", console=False) as monitor:
        alerts = [one for step in range(10) for one in monitor.log({"seconds_per_step": 6.0}, step)]
    assert [alert.detector for alert in alerts] == ["lateness"] * 10
    assert next(row["signal"] for row in lines_of("a", "event")) == "lateness"
    replayed = CliRunner().invoke(command, ["replay", "klarm_runs/a", "--format", "json"])
    assert len(json.loads(replayed.output)["alerts"]) == 10
    listed = CliRunner().invoke(command, ["detectors"]).output
    assert "lateness  Finds what is late." in listed
    written = CliRunner().invoke(command, ["init", "other.yaml"])
    assert written.exit_code == 0
    assert "\nlateness:\n" in Path("other.yaml").read_text()
    assert load("other.yaml").sections["lateness"]["seconds"] == 10.0
    sent = CliRunner().invoke(command, ["test-alert"])
    assert sent.output == "void: delivered\n"


BROKEN = {
    "import": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    "raises": ("raise SystemError('boom')", "SystemError: boom"),
    "absent": ("x = 1", "has no attribute 'LateDetector'"),
    "no class": ("LateDetector = 1", "1 is not a subclass of klarm.Detector"),
    "name": (PACKAGE.replace('"lateness"', '"late"', 1), "is called lateness, its detector 'late'"),
    "no default": (PACKAGE.replace("pass\n", "1 / 0\n"), "ZeroDivisionError"),
}


@pytest.mark.parametrize("which", BROKEN)
def test_a_broken_plugin_is_an_error_if_configured_and_otherwise_a_notice(
    site: None, which: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Users who configured it get an error before training; others can train."""
    code, why = BROKEN[which]
    install("late_package", code, GOOD)
    klarm.init("a").finish()
    said = " ".join(capfd.readouterr().err.split())
    assert "lateness of late_package (late_package:LateDetector) cannot be used" in said
    assert why in said
    Path("klarm.yaml").write_text("lateness: {seconds: 5}\n")
    with pytest.raises(klarm.ConfigError, match=r"klarm.yaml: the detector lateness of late_pack"):
        klarm.init("a")
