"""Plugins of other packages are found by their entry points, and reported if they are broken."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import klarm
from own_parts import GOOD, PACKAGE, install


def test_a_broken_channel_is_an_error_where_it_is_configured(site: None) -> None:
    """Nobody else imports it."""
    install("late_package", "import no_such_module", GOOD.replace("detectors", "no_detectors"))
    klarm.init("a", console=False)
    with pytest.raises(klarm.ConfigError, match=r"channels.void: the channel void of late_package"):
        klarm.init("a", channels={"void": {}})


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
