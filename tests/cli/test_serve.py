"""`klarm serve` and `klarm demo --page`, run as a user runs them.

The code is in serve.py and demo_page.py.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

import klarm
from cli.commands import run_klarm

COMMAND = [sys.executable, "-m", "klarm"]
TOKEN = "a-token-that-nobody-guesses"


@contextmanager
def started(*arguments: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a command that serves the page; yield its address."""
    import os

    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
    )
    try:
        assert process.stdout is not None
        said = ""
        while not (found := re.search(r"http://\S+:\d+", said)):
            line = process.stdout.readline()
            assert line, said
            said += line
        yield found[0], process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()


def asked(url: str, token: str = "") -> object:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for _ in range(1_000):
        try:
            with urlopen(Request(url, headers=headers), timeout=60) as answer:
                return json.load(answer)
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"{url} does not answer")


def refused(*arguments: str) -> str:
    done = run_klarm(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    return done.stderr


def a_run() -> None:
    klarm.init("a", dir="runs", console=False)
    klarm.log({"kl": 0.1}, step=1)
    klarm.finish()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", socket.gethostname()])
def test_a_public_address_requires_a_token(host: str) -> None:
    """The message says how to get a token."""
    Path("runs").mkdir()
    said = refused("serve", "runs", "--host", host)
    assert "it needs a token" in said
    assert "secrets.token_urlsafe" in said


def test_with_a_token_the_page_can_be_reached() -> None:
    """The token comes from the environment, where other users do not see it."""
    a_run()
    arguments = ("serve", "runs", "--host", "0.0.0.0", "--port", "0")
    with started(*arguments, KLARM_SERVE_TOKEN=TOKEN) as (url, _):
        assert asked(f"{url}/api/v1/session") == {"login_needed": True, "logged_in": False}
        assert asked(f"{url}/api/v1/status", TOKEN)["folder"] == "runs"  # type: ignore[index]


def test_the_error_says_why_nothing_can_be_served() -> None:
    """Examples are a missing folder, a short token, and a port in use."""
    assert "is not a folder" in refused("serve", "nothing")
    Path("runs").mkdir()
    assert "at least 16 characters" in refused("serve", "runs", "--token", "short")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "try another --port" in refused("serve", "runs", "--port", port)


def test_an_unknown_host_is_reported_before_a_token_is_required() -> None:
    """Nobody should have to create a secret because of a typo."""
    Path("runs").mkdir()
    said = refused("serve", "runs", "--host", "nosuch.invalid")
    assert "try another --host" in said
    assert "token" not in said


def test_it_waits_for_the_first_run_and_shows_runs_until_ctrl_c() -> None:
    """The default folder, which KLARM_DIR sets, may be missing, but a named folder must exist.

    It ends without an error.
    """
    with started("serve", "--port", "0", KLARM_DIR="to/come") as (url, process):
        assert process.stdout is not None
        assert url.startswith("http://127.0.0.1:")
        assert "There is no run yet" in process.stdout.readline()
        assert asked(f"{url}/api/v1/status")["folder"] == "come"  # type: ignore[index]
        assert runs_at(url) == []
        klarm.init("first", dir="to/come", console=False)
        klarm.log({"kl": 0.1}, step=1)
        klarm.finish()
        wait_for(lambda: [run["id"] for run in runs_at(url)] == ["first"])
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        assert "Traceback" not in rest
        assert process.returncode == 130


def without_the_extra(*arguments: str, **environment: str) -> str:
    """Return the error of a command where the server's packages are not installed."""
    script = (
        "import sys; sys.modules['starlette'] = None; sys.argv[0] = 'klarm'; "
        "from klarm.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("command", [("serve", "."), ("demo", "--page")])
def test_without_the_extra_it_says_what_to_install(command: tuple[str, ...]) -> None:
    """A checkout has no page yet, so it needs another command first."""
    said = without_the_extra(*command)
    assert said.startswith("Error: the page needs starlette: pip install 'klarm[server]' (in a ch")
    assert "make page" in said


def test_the_demo_plays_on_the_page() -> None:
    """It plays live beside finished recordings, leaves no files and notifies nobody."""
    Path("klarm.yaml").write_text("channels: {slack: {webhook_url: 'https://a.invalid/b'}}\n")
    with started("demo", "--page") as (url, process):
        for _ in range(1_000):
            found = asked(f"{url}/api/v1/runs")
            assert isinstance(found, dict)
            if len(found["runs"]) == 3:
                break
            time.sleep(0.05)
        activities = {run["id"]: run["activity"] for run in found["runs"]}
        assert activities == {
            "demo-exploding": "training",
            "demo-drifting": "finished",
            "demo-healthy": "finished",
        }
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert not Path("klarm_runs").exists()
    assert "--page takes no --frozen" in refused("demo", "--page", "--frozen")


def runs_at(url: str) -> list[dict[str, object]]:
    answer = asked(f"{url}/api/v1/runs")
    assert isinstance(answer, dict)
    return list(answer["runs"])


def wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_folder_that_cannot_be_created_says_so() -> None:
    """A file is in the way here, as a read-only disk may be elsewhere."""
    Path("in-the-way").write_text("")
    done = run_klarm("serve", "--port", "0", KLARM_DIR="in-the-way/runs")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "in-the-way/runs, cannot be created (Not a directory)" in done.stderr
