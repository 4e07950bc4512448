"""Serving: what it binds to, and that it ends; serving.py."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from serving_runs import Client, write_steps

from klarm.server import CannotServeError, PageServer


def test_the_address_is_one_that_a_browser_finds() -> None:
    """Also where the server listens on every address."""
    write_steps("a", {1: {"kl": 0.1}})
    server = PageServer(
        Path("runs"), print, host="0.0.0.0", port=0, token="a-token-that-nobody-guesses"
    )
    assert server.url == f"http://127.0.0.1:{server.port}"
    server.stop()


def test_it_knows_whether_there_is_a_run_to_show() -> None:
    """Also where the folder is a run itself."""
    write_steps("a", {1: {"kl": 0.1}})
    Path("none").mkdir()
    for folder, has_runs in (("runs", True), ("runs/a", True), ("none", False)):
        server = PageServer(Path(folder), print, port=0)
        assert server.has_runs is has_runs
        server.stop()


def test_nothing_is_left_when_it_stops() -> None:
    """No thread, no lock: another server can use the index."""
    write_steps("a", {1: {"kl": 0.1}})
    for _ in range(2):
        server = PageServer(Path("runs"), print, port=0)
        server.start()
        client = Client(server.port)
        with client.events() as stream:
            next(stream)
            server.stop()
        assert not [t for t in threading.enumerate() if t.name in ("klarm-index", "klarm-page")]


def test_connections_that_must_wait_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Not with a traceback for every attempt; other messages of asyncio are not held back."""
    Path("runs").mkdir()
    said: list[str] = []
    server = PageServer(Path("runs"), said.append, port=0)
    server.start()
    logger = logging.getLogger("asyncio")
    for _ in range(3):
        logger.error("socket.accept() out of system resource")
    logger.error("something else")
    server.stop()
    assert said == ["too many files are open: new connections wait until others end"]
    assert [record.msg for record in caplog.records if record.name == "asyncio"] == [
        "something else"
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1"])
def test_a_host_that_others_reach_needs_a_token(host: str) -> None:
    """Before anything is opened."""
    Path("runs").mkdir()
    with pytest.raises(CannotServeError, match="needs a token"):
        PageServer(Path("runs"), print, host=host, port=0)
    assert list(Path("runs").iterdir()) == []
