"""KLARM_DISABLED: a monitor that does nothing, and says so once. Also covers silence.py."""

from __future__ import annotations

import inspect
import math
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import klarm
from klarm.monitor.disabled import DisabledMonitor

OFF = "klarm: disabled (KLARM_DISABLED, or disabled: true): nothing is watched"


@pytest.mark.parametrize("value", ["1", "true", "yes"])
def test_the_variable_switches_everything_off(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No folder, no thread, no alert, one line; nothing that a script calls fails."""
    monkeypatch.setenv("KLARM_DISABLED", value)
    threads = threading.active_count()
    monitor = klarm.init("a")
    for step in range(30):
        assert klarm.log({"kl": math.nan}, step) == []
    monitor.checkpoint(3, "x")
    monitor.resume(2)
    assert monitor.critical == []
    assert monitor.incidents == []
    klarm.finish()
    klarm.log({"kl": 1.0})
    assert threading.active_count() == threads
    assert not Path("klarm_runs").exists()
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert printed.startswith(OFF)


def test_no_secret_and_no_channel_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a laptop, where the run is only tried."""
    monkeypatch.setenv("KLARM_DISABLED", "1")
    klarm.init("a", channels={"slack": {"webhook_url": {"env": "NOT_SET"}}}, console=False)
    klarm.log({"kl": math.nan})


@pytest.mark.parametrize("value", ["0", "false", ""])
def test_it_is_on_otherwise(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is set to no does not switch it off."""
    monkeypatch.setenv("KLARM_DISABLED", value)
    klarm.init("a", console=False)
    assert len(klarm.log({"kl": math.nan})) > 0


def test_a_value_that_is_neither_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before training, as any wrong setting."""
    monkeypatch.setenv("KLARM_DISABLED", "perhaps")
    with pytest.raises(klarm.ConfigError, match="KLARM_DISABLED: disabled must be true or false"):
        klarm.init("a")


def test_it_takes_what_a_monitor_takes() -> None:
    """The signatures are the same."""
    for name in ("log", "checkpoint", "resume", "finish"):
        ours, theirs = getattr(DisabledMonitor, name), getattr(klarm.Monitor, name)
        assert inspect.signature(ours) == inspect.signature(theirs)


def test_methods_that_reach_the_pipeline_do_nothing_in_a_silent_monitor() -> None:
    """One that is disabled, has finished or is in a forked child keeps nothing."""
    reaching = {
        name: inspect.getsource(method)
        for name, method in vars(klarm.Monitor).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
    reaching = {name: code for name, code in reaching.items() if "self._pipeline" in code}
    assert {"checkpoint", "resume", "apply", "finish"} <= reaching.keys()
    looks = re.compile(r"self\._(silent_because|unless_silent)")
    assert [name for name, code in reaching.items() if not looks.search(code)] == []


def test_a_script_runs_to_its_end_in_silence_after_that() -> None:
    """Also at its exit."""
    script = "import klarm; klarm.init('a'); [klarm.log({'kl': 0.1}) for _ in range(9)]"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"KLARM_DISABLED": "1", "PYTHONPATH": str(Path(klarm.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
