"""A run that crashes: people are notified, once, by a real webhook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from recorded_lines import lines_of

# What Python 3.12 and later do once the script has ended.
NO_THREADS = """
import atexit, threading
def refuse(self): raise RuntimeError("can't create new thread at interpreter shutdown")
atexit.register(lambda: setattr(threading.Thread, "start", refuse))
"""
START = """
import os, signal, sys, klarm
channels = {"ops": {"type": "webhook", "url": sys.argv[1]}}
klarm.init("night", channels=channels, console=False)
"""


class Hook:
    """A web server on loopback that keeps what is posted to it."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        posts = self.posts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.close()


def run(hook: Hook, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START + script, hook.url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=dict(os.environ),
    )


def steps(first: int, last: int) -> str:
    return (
        f"for step in range({first}, {last + 1}): klarm.log({{'kl': 0.1 + 0.001 * step}}, step)\n"
    )


def events() -> list[tuple[str, str, str]]:
    lines = lines_of("night", "event")
    return [(line["signal"], line["event"], line["reason"]) for line in lines]


@pytest.mark.parametrize("threads", ["", NO_THREADS], ids=["threads", "no threads at the end"])
def test_a_crash_is_told_though_nothing_else_was_wrong(hook: Hook, threads: str) -> None:
    """With the exception, the last checkpoint, and the exit code as it would be."""
    saved = "import klarm.api\nklarm.api.current_monitor().checkpoint(3, 'ckpt-3')\n"
    done = run(hook, threads + steps(1, 5) + saved + "raise RuntimeError('out of memory')")
    assert done.returncode == 1, done.stderr
    (post,) = hook.posts
    assert (post["event"], post["signal"], post["severity"]) == ("opened", "liveness", "critical")
    assert post["title"] == "night: crashed after step 5"
    assert "The run crashed after step 5: RuntimeError: out of memory" in post["body"]
    assert "ckpt-3" in post["body"]


@pytest.mark.parametrize(
    "script",
    [
        "",
        "sys.exit(0)",
        "sys.exit(3)",
        "os.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(30)",
    ],
    ids=["end", "exit 0", "exit 3", "Ctrl-C"],
)
def test_only_a_crash_is_told(hook: Hook, script: str) -> None:
    """Whoever stops a run knows that it has stopped."""
    run(hook, steps(1, 5) + script)
    assert hook.posts == []
    assert events() == []


def test_a_crash_before_the_first_step_is_not_told(hook: Hook) -> None:
    """Whoever has just started the run sees it."""
    run(hook, "raise RuntimeError('a typing error')")
    assert hook.posts == []


def test_an_exit_because_of_an_error_is_a_crash(hook: Hook) -> None:
    """As Hydra does: it prints the exception of a training and exits with 1."""
    failing = "try: 1 / 0\nexcept ZeroDivisionError: sys.exit(1)"
    done = run(hook, steps(1, 5) + failing)
    assert done.returncode == 1
    (post,) = hook.posts
    assert "ZeroDivisionError: division by zero" in post["body"]


def test_the_next_start_resolves_it(hook: Hook) -> None:
    """With its first step: until then, a second crash is no news."""
    run(hook, steps(1, 5) + "raise RuntimeError('once')")
    run(hook, "raise RuntimeError('again, before any step')")
    assert [post["event"] for post in hook.posts] == ["opened"]
    run(hook, steps(6, 8))
    assert [post["event"] for post in hook.posts] == ["opened", "resolved"]
    resolved = hook.posts[-1]
    assert (resolved["id"], resolved["reason"]) == (hook.posts[0]["id"], "resumed")
    assert resolved["why"] == "The run was resumed at step 6."
    run(hook, steps(9, 10) + "raise RuntimeError('another time')")
    assert [post["event"] for post in hook.posts] == ["opened", "resolved", "opened"]
    assert hook.posts[-1]["id"] != hook.posts[0]["id"]
    assert hook.posts[-1]["incident"] == 2


def test_a_replay_tells_the_same(hook: Hook) -> None:
    """The journal says how the run ended."""
    run(hook, steps(1, 5) + "raise RuntimeError('once')")
    run(hook, steps(6, 8))
    replay = subprocess.run(
        [sys.executable, "-m", "klarm", "replay", "klarm_runs/night", "--format", "json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = json.loads(replay.stdout)
    assert [(i["signal"], i["state"], i["reason"]) for i in found["incidents"]] == [
        ("liveness", "resolved", "resumed")
    ]
    assert events() == [("liveness", "opened", "crashed"), ("liveness", "resolved", "resumed")]
