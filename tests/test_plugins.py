"""Plugins of other packages are found by their entry points, and reported if they are broken."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import klarm
from own_parts import GOOD, PACKAGE, install

CHANNEL_ONLY = GOOD.replace("klarm.detectors", "no.detectors")
BROKEN = {
    "import": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    "absent": ("x = 1", "has no attribute 'NullChannel'"),
    "no class": ("NullChannel = 1", "1 is not a subclass of klarm.Channel"),
    "type": (PACKAGE.replace('"void"', '"null"'), "is called void, its channel 'null'"),
}


@pytest.mark.parametrize("which", BROKEN)
def test_a_broken_channel_is_an_error_if_configured_and_otherwise_a_notice(
    site: None, which: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """As for detectors: nobody finds out from an incident that nobody was notified of."""
    code, why = BROKEN[which]
    install("late_package", code, CHANNEL_ONLY)
    klarm.init("a").finish()
    said = " ".join(capfd.readouterr().err.split())
    assert "the channel void of late_package (late_package:NullChannel) cannot be used" in said
    assert why in said
    with pytest.raises(klarm.ConfigError, match=r"channels.void: the channel void of late_package"):
        klarm.init("a", channels={"void": {}})


def test_a_package_cannot_replace_a_channel_of_klarms(
    site: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """The name keeps its meaning, and the package's channel is reported."""
    install("late_package", PACKAGE, CHANNEL_ONLY.replace("void", "desktop"))
    klarm.init("a", channels={"desktop": {"enabled": False}}).finish()
    said = " ".join(capfd.readouterr().err.split())
    assert "the channel desktop of late_package" in said
    assert "klarm has a channel of that name" in said


def test_a_broken_plugin_is_reported_once_although_a_config_is_read_twice(
    site: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """First by `Config.load`, then by `klarm.init`."""
    install("late_package", "import no_such_module", GOOD)
    klarm.init("a", klarm.Config.load()).finish()
    said = " ".join(capfd.readouterr().err.split())
    assert said.count("the detector lateness of late_package") == 1
    assert said.count("the channel void of late_package") == 1


def test_two_packages_with_one_name_are_reported(
    site: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither is guessed at; and none can take a name of klarm's own."""
    install("late_package", PACKAGE, GOOD)
    other = "[klarm.detectors]\nlateness = late_package:LateDetector\n"
    install("other_package", "", other + "kl_explosion = late_package:LateDetector\n")
    klarm.init("a").finish()
    said = " ".join(capfd.readouterr().err.split())
    assert "have the same name" in said
    assert "the detector kl_explosion of other_package" in said


def test_entry_points_are_looked_for_in_init_only() -> None:
    """Neither `import klarm` nor `log` pays for it."""
    script = """
        import sys
        import klarm
        assert "importlib.metadata" not in sys.modules
        assert klarm.Detector and klarm.Channel
        assert "importlib.metadata" not in sys.modules
        klarm.init("a", console=False)
        assert "importlib.metadata" in sys.modules
        import importlib.metadata
        importlib.metadata.entry_points = None
        klarm.log({"kl": 0.1})
        klarm.finish()
        print("done")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "done\n"
