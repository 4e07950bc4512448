"""A real server on a folder of real journals, and a real Chromium that looks at its page."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
STARTS_WITHIN_SECONDS = 30.0


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Start the machine's Chromium; `make test-browser` installs one where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    assert path, "there is no Chromium: run `make chromium`"
    with sync_playwright() as playwright:
        # A container's root cannot use the sandbox; its shared memory is small.
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


class Site:
    """The page of a running server."""

    def __init__(self, browser: Browser, address: str) -> None:
        self._browser = browser
        self.address = address
        self.complaints: list[str] = []
        self.foreign: list[str] = []

    def open(self, path: str = "/", **context: object) -> Page:
        """Open an address of the page in a browser of its own, and note what goes wrong there."""
        page = self._browser.new_context(**context).new_page()  # type: ignore[arg-type]
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "console",
            lambda message: (
                self.complaints.append(message.text) if message.type == "error" else None
            ),
        )
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((self.address, "blob:"))
                else self.foreign.append(request.url)
            ),
        )
        page.goto(self.address + path)
        return page


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return the folder whose runs the server shows."""
    folder = tmp_path / "klarm_runs"
    folder.mkdir()
    return folder


@pytest.fixture
def serve(chromium: Browser, runs: Path) -> Iterator[Callable[[], Site]]:
    """Return what starts the server; afterwards no script failed and no other host was asked."""
    started: list[tuple[subprocess.Popen[bytes], Site]] = []

    def start() -> Site:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-m", "klarm", "serve", str(runs), "--port", str(port)],
            cwd=runs.parent,
            env={**os.environ, "XDG_CACHE_HOME": str(runs.parent / "cache")},
        )
        site = Site(chromium, f"http://127.0.0.1:{port}")
        started.append((process, site))
        _wait_for(site.address, process)
        return site

    yield start
    for process, site in started:
        for context in list(chromium.contexts):
            context.close()
        process.terminate()
        process.wait(10)
        assert site.complaints == []
        assert site.foreign == []


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


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the source of axe-core, to be run within the page."""
    return (ROOT / "web/node_modules/axe-core/axe.min.js").read_text()
