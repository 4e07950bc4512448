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


@contextmanager
def running_server(runs: Path) -> Iterator[str]:
    """Run `klarm serve` on a port that is free, and return its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "klarm", "serve", str(runs), "--port", str(port)],
        cwd=runs.parent,
        env={**os.environ, "XDG_CACHE_HOME": str(runs.parent / "cache")},
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(10)


class Site:
    """The page of a running server; notes what goes wrong in it, and which other hosts it asks."""

    def __init__(self, browser: Browser, address: str) -> None:
        self._browser = browser
        self.address = address
        self.complaints: list[str] = []
        self.foreign: list[str] = []

    def open(self, path: str = "/", **context: Any) -> Page:
        """Open an address of the page in a browser of its own."""
        page = self._browser.new_context(**context).new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("request", lambda request: self._see(request.url))
        page.goto(self.address + path)
        return page

    def _hear(self, kind: str, text: str) -> None:
        if kind == "error":
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
