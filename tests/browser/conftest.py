"""A real server on a folder of real journals, and a real Chromium that looks at its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from site_under_test import Site, find_chromium, running_server

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Start Chromium once for all tests."""
    with sync_playwright() as playwright:
        # A container's root cannot use the sandbox; its shared memory is small.
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return the folder whose runs the server shows."""
    folder = tmp_path / "klarm_runs"
    folder.mkdir()
    return folder


@pytest.fixture
def serve(chromium: Browser, runs: Path) -> Iterator[Callable[[], Site]]:
    """Return what starts the server; afterwards no script failed and no other host was asked."""
    sites: list[Site] = []
    with ExitStack() as stack:

        def start() -> Site:
            sites.append(Site(chromium, stack.enter_context(running_server(runs))))
            return sites[-1]

        yield start
        for context in list(chromium.contexts):
            context.close()
    for site in sites:
        assert site.complaints == []
        assert site.foreign == []


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the source of axe-core, to be run within the page."""
    return (ROOT / "web/node_modules/axe-core/axe.min.js").read_text()
