"""The tutorial of the docs works as it is written: its files saved, its commands run in order."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from test_console import shown_on_a_terminal

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorial.md"
PORT = "8765"
NOT_RUN, FILE = "<!-- not run by the test -->", re.compile(r"<!-- file: (\S+) -->")


def free_port() -> str:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return str(server.getsockname()[1])


def blocks() -> list[tuple[str, str, str]]:
    """Return the blocks of the page: the remark before each, its language, its text."""
    found = re.findall(r"(?:(<!--.*?-->)\n)?```(\w+)\n(.*?)```", TUTORIAL.read_text(), re.S)
    return [(remark, language, text) for remark, language, text in found]


def write_commands(folder: Path) -> None:
    """Put `klarm` and `python` where a shell finds them, as an environment does."""
    folder.mkdir()
    for name, code in (("klarm", "-m klarm"), ("python", "")):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {code} "$@"\n')
        path.chmod(0o755)


def test_the_tutorial_leads_to_a_caught_explosion_and_a_message(tmp_path: Path) -> None:
    """Whoever copies each block gets what the page says."""
    port, script = free_port(), ["set -em"]
    for remark, language, text in blocks():
        if named := FILE.fullmatch(remark):
            Path(named[1]).write_text(text.replace(PORT, port))
        elif language == "bash" and remark != NOT_RUN:
            script.append(text)
    write_commands(tmp_path / "bin")
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hook: delivered" in done.stdout
    received = re.findall(r"^RECEIVED: (.*)$", done.stdout, re.M)
    assert received[0].startswith("Test: example: kl warning")
    assert any(title.find("kl critical, began at step") >= 0 for title in received), received
    assert len(received) == len(set(received))
    assert "klarm INCIDENT 1 on learning_rate opened, warning, step 200" in done.stderr
    page = TUTORIAL.read_text()
    (incident_line,) = re.findall(r"^klarm INCIDENT 2 on kl opened.*$", page, re.M)
    assert incident_line in done.stderr
    assert "run tutorial: finished, critical" in done.stdout
    assert re.search(r"^  hook +notified at ", done.stdout, re.M)
    assert "acknowledged" in done.stdout


def test_a_terminal_shows_the_box_of_the_page() -> None:
    """Most readers train in a terminal."""
    (script,) = (text for remark, _, text in blocks() if "train.py" in remark)
    box = re.findall(r"^[╭│].*[╮│]$", TUTORIAL.read_text(), re.M)
    assert len(box) > 1
    shown = re.sub(r"\x1b\[[0-9;]*[mK]|\r", "", shown_on_a_terminal(script, 80))
    assert "\n".join(box) in shown


def test_every_block_is_run_or_says_that_it_is_not() -> None:
    """Nothing that a reader copies is left out by accident."""
    for remark, language, _ in blocks():
        assert language in ("bash", "python", "yaml")
        assert language == "bash" or FILE.fullmatch(remark)
    assert [remark for remark, *_ in blocks()].count(NOT_RUN) == 1
