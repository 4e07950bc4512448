"""`klarm deliver`: a run that crashed is recorded as such, and its incident is sent once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from loopback import Server

from klarm.cli.group import klarm as command
from klarm.journal import FILE_NAME, Fold

FOLDER = Path("klarm_runs/a")
KILLED = """
import os, signal, klarm
klarm.init("a", console=False, deliver="elsewhere")
klarm.log({"kl": float("nan")}, 3)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def crashed(server: Server, clean_place: None) -> None:
    """A run that was killed with an incident open."""
    Path("klarm.yaml").write_text(f"channels: {{hook: {{type: webhook, url: '{server.url}'}}}}")
    subprocess.run([sys.executable, "-c", KILLED], check=False, timeout=60)


def deliver(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["deliver", "klarm_runs", *arguments])


@pytest.mark.usefixtures("crashed")
def test_a_crashed_run_is_sent_once_with_how_it_ended(server: Server) -> None:
    """The second time, nothing is pending."""
    first = deliver()
    assert (first.exit_code, first.stdout) == (0, "a: sent 1 to hook\n")
    (message,) = server.messages
    assert (message["event"], message["severity"]) == ("opened", "critical")
    fold = Fold(FOLDER / FILE_NAME)
    fold.update()
    assert [(one.state, one.reason) for one in fold.incidents.values()] == [("ended", "crashed")]
    assert deliver().stdout == "a: nothing pending\n"
    assert len(server.messages) == 1


@pytest.mark.usefixtures("crashed")
def test_the_exit_code_shows_that_something_is_pending(server: Server) -> None:
    """Rejected messages count, and the output says how to send them again."""
    server.answers = [(404, {})]
    done = deliver()
    assert done.exit_code == 1
    assert done.stdout == "a: hook rejected 1; --again sends it\n"
    assert deliver("--again").stdout == "a: sent 1 to hook\n"


def test_a_folder_without_runs_is_refused() -> None:
    """The message names the folder."""
    Path("klarm_runs").mkdir()
    Path("klarm.yaml").write_text("channels: {hook: {type: webhook, url: 'http://127.0.0.1:9'}}")
    done = deliver()
    assert done.exit_code == 2
    assert "there is no run in klarm_runs" in done.output
