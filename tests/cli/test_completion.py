"""Shell completion as docs/index.md describes it; options.py completes runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import klarm
from cli.commands import run_klarm

INDEX = Path(__file__).parents[2] / "docs" / "index.md"


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the command on the PATH, as an installation does."""
    script = tmp_path / "bin" / "klarm"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom klarm.cli import main\nmain()\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    return script


def completed(words: str) -> list[str]:
    """Return the completions that Bash gets for the last word."""
    done = run_klarm(
        _KLARM_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split(" ")) - 1),
    )
    assert done.returncode == 0
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_commands_detectors_and_runs_are_completed() -> None:
    """The beginning of a name is enough."""
    klarm.init("grpo-7b", console=False)
    klarm.finish()
    assert completed("klarm detec") == ["detectors"]
    assert completed("klarm detectors kl_ex") == ["kl_explosion"]
    assert completed("klarm show gr") == ["grpo-7b"]
    assert completed("klarm show other") == []
    assert completed("klarm runs --for") == ["--format"]


def test_completion_survives_a_wrong_configuration() -> None:
    """It completes nothing in that case."""
    Path("klarm.yaml").write_text("colour: red")
    assert completed("klarm show gr") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_documented_line_works(command: Path, shell: str) -> None:
    """It works in the shell if that is installed; otherwise it prints a script."""
    (line,) = (
        part.replace("\\|", "|")
        for row in INDEX.read_text().splitlines()
        for part in row.split("`")
        if f"_KLARM_COMPLETE={shell}_source" in part
    )
    if shutil.which(shell) is None:
        shown = run_klarm(_KLARM_COMPLETE=f"{shell}_source")
        assert shown.returncode == 0
        assert "_KLARM_COMPLETE" in shown.stdout
        return
    done = subprocess.run([shell, "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
