"""`klarm serve` and `klarm demo --page`, run as a user runs them.

The code is in serve.py, followers.py, demo_page.py and checkout.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
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
from klarm.journal.locks import is_surely_free

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


def test_without_the_extra_it_says_what_to_install() -> None:
    """The message has the command to install it."""
    package = Path(klarm.__file__).parent
    shutil.copytree(package, "installed/klarm", ignore=shutil.ignore_patterns("__pycache__"))
    said = without_the_extra("demo", "--page", PYTHONPATH="installed")
    assert said == "Error: the page needs starlette: pip install 'klarm[server]'\n"


def test_in_a_checkout_it_says_how_to_get_the_page_first() -> None:
    """Both commands, in their order: an installation would come without the page otherwise."""
    said = without_the_extra("serve", ".")
    first, _, then = said.removesuffix("\n").partition(", then ")
    assert first == "Error: the page needs starlette: in the checkout of klarm, run make page"
    assert then.endswith("python -m pip install -e '.[server]'")
    assert "klarm[server]" not in said
    python = Path(klarm.__file__).parents[2] / then.partition(" -m ")[0]
    assert python.samefile(sys.executable)


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


def write_log(path: Path, steps: int) -> None:
    rows = [f"{step},{0.02 + 0.001 * (step % 3) + 5.0 * (step > 150)}" for step in range(steps)]
    path.write_text("\n".join(["step,kl", *rows, ""]))


def runs_at(url: str) -> list[dict[str, object]]:
    answer = asked(f"{url}/api/v1/runs")
    assert isinstance(answer, dict)
    return list(answer["runs"])


def wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.slow
def test_a_log_that_is_one_document_is_shown_and_followed() -> None:
    """Hugging Face's Trainer rewrites its log as a whole."""
    state = Path("grpo/checkpoint-10/trainer_state.json")
    state.parent.mkdir(parents=True)

    def save(steps: int) -> None:
        rows = [{"step": step, "kl": 0.02, "reward": 0.1} for step in range(1, steps + 1)]
        state.write_text(json.dumps({"log_history": rows}))

    save(10)
    with started("serve", "runs", "--port", "0", "--follow", str(state)) as (url, _):
        wait_for(lambda: [(run["id"], run["last_step"]) for run in runs_at(url)] == [("grpo", 10)])
        save(20)
        wait_for(lambda: [run["last_step"] for run in runs_at(url)] == [20])


def test_a_log_that_klarm_did_not_write_is_shown_and_followed() -> None:
    """It appears with its incidents as a run of the folder, which need not exist yet."""
    log = Path("other.csv")
    write_log(log, 100)
    with started("serve", "runs", "--port", "0", "--follow", str(log)) as (url, _):
        wait_for(lambda: [run["last_step"] for run in runs_at(url)] == [99])
        assert [run["health"] for run in runs_at(url)] == ["ok"]
        write_log(log, 200)
        wait_for(lambda: [run["health"] for run in runs_at(url)] == ["critical"])
        assert runs_at(url)[0]["name"] == "other"
    assert is_surely_free(Path("runs/other/journal.jsonl"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_server_that_is_killed_leaves_no_follower_behind() -> None:
    """A remaining follower would prevent the run from being followed again."""
    write_log(Path("other.csv"), 100)
    with started("serve", "runs", "--port", "0", "--follow", "other.csv") as (url, process):
        wait_for(lambda: [run["last_step"] for run in runs_at(url)] == [99])
        process.kill()
        wait_for(lambda: is_surely_free(Path("runs/other/journal.jsonl")))


def test_a_folder_that_cannot_be_created_says_so() -> None:
    """A file is in the way here, as a read-only disk may be elsewhere."""
    Path("in-the-way").write_text("")
    done = run_klarm("serve", "--port", "0", KLARM_DIR="in-the-way/runs")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "in-the-way/runs, cannot be created (Not a directory)" in done.stderr
