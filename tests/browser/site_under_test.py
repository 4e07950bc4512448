"""A real `klarm serve` on a folder of runs, and its page in a browser."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

STARTS_WITHIN_SECONDS = 30.0


def find_chromium() -> str:
    """Return the machine's Chromium; `make test-browser` installs one where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    assert path, "there is no Chromium: run `make chromium`"
    return path


class Server:
    """A `klarm serve` on a port that was free; it can be stopped and started again."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "klarm", "serve", str(self._runs), "--port", str(self._port)],
            cwd=self._runs.parent,
            env={**os.environ, "XDG_CACHE_HOME": str(self._runs.parent / "cache")},
        )
        _wait_for(self.address, self._process)

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None


@contextmanager
def running_server(runs: Path) -> Iterator[Server]:
    """Run a server as long as the block lasts."""
    server = Server(runs)
    try:
        server.start()
        yield server
    finally:
        server.stop()


class Site:
    """The page of a running server; notes what goes wrong in it, and which other hosts it asks."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self._browser = browser
        self.server = server
        self.address = server.address
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        # What Chromium reports by itself in a test that provokes it.
        self.expected_complaint: str | None = None

    def open(self, path: str = "/", **context: Any) -> Page:
        """Open an address of the page in a browser of its own."""
        page = self._browser.new_context(**context).new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: self.complaints.append(error.stack or str(error)))
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("request", lambda request: self._see(request.url))
        page.goto(self.address + path)
        return page

    def _hear(self, kind: str, text: str) -> None:
        expected = self.expected_complaint is not None and self.expected_complaint in text
        if kind == "error" and not expected:
            self.complaints.append(text)

    def _see(self, url: str) -> None:
        if not url.startswith((self.address, "blob:")):
            self.foreign.append(url)


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    ends_at = time.monotonic() + STARTS_WITHIN_SECONDS
    while True:
        try:
            urllib.request.urlopen(f"{address}/api/v1/health", timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError):
            assert process.poll() is None, "klarm serve has ended"
            assert time.monotonic() < ends_at, "klarm serve does not answer"
            time.sleep(0.1)
