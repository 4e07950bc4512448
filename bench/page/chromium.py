"""Drives a real Chromium, and measures when it has drawn a page."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright
from site_under_test import find_chromium

TURNS = 5
_PATIENCE_SECONDS = 60.0


class Painted(NamedTuple):
    """Seconds from asking for an address to the first chart, and to all of them."""

    first: float
    all: float


@contextlib.contextmanager
def started() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


# Runs in the page before anything else: notes when so many elements are there, two frames later,
# when they have been painted.
_NOTE = """
([sought, all]) => {
  window.painted = {};
  const note = (name) => {
    window.painted[name] = 0;
    const stamp = () => { window.painted[name] = performance.now(); };
    requestAnimationFrame(() => requestAnimationFrame(stamp));
  };
  const look = () => {
    const found = document.querySelectorAll(sought).length;
    if (found >= 1 && !("first" in window.painted)) note("first");
    if (found >= all && !("all" in window.painted)) note("all");
    if (!("all" in window.painted)) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}
"""


def painted(browser: Browser, address: str, sought: str, all_: int) -> Painted:
    """Open an address several times, each in a fresh browser; return the medians."""
    found = [_painted(browser, address, sought, all_) for _ in range(TURNS)]
    return Painted(median(one.first for one in found), median(one.all for one in found))


def _painted(browser: Browser, address: str, sought: str, all_: int) -> Painted:
    context = browser.new_context(viewport={"width": 1440, "height": 2400})
    page = context.new_page()
    page.add_init_script(f"({_NOTE})({[sought, all_]!r})")
    page.goto(address, wait_until="commit")
    # Strings that are evaluated within the page are forbidden by its content-security policy.
    until = time.monotonic() + _PATIENCE_SECONDS
    while not page.evaluate("window.painted?.all > 0"):
        assert time.monotonic() < until, f"{address} is not painted"
        page.wait_for_timeout(100)
    first, every = page.evaluate("[window.painted.first, window.painted.all]")
    context.close()
    return Painted(first / 1000, every / 1000)


class Scrolled(NamedTuple):
    """Seconds of the page's longest frame while it was scrolled."""

    longest_work: float  # of its main thread, in the trace
    longest_processor_time: float  # of the same: other processes do not add to it
    longest_gap: float  # between two frames, also while Chromium or the machine is busy elsewhere
    frames: int


def scrolled(browser: Browser, page: Page, seconds: float) -> Scrolled:
    """Scroll through a page with the wheel while Chromium records a trace."""
    page.evaluate(
        """() => {
          window.frames_ = [];
          const note = (now) => { window.frames_.push(now); requestAnimationFrame(note); };
          requestAnimationFrame(note);
        }"""
    )
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    page.mouse.move(600, 500)
    for _ in range(round(seconds / 0.03)):
        page.mouse.wheel(0, 300)
        page.wait_for_timeout(16)
    trace = browser.stop_tracing()
    times = page.evaluate("window.frames_")
    gaps = [after - before for before, after in pairwise(times)]
    work = _work_of_main_thread(trace)
    return Scrolled(
        max(task.get("dur", 0) for task in work) / 1e6,
        max(task.get("tdur", 0) for task in work) / 1e6,
        max(gaps) / 1000,
        len(times),
    )


def _work_of_main_thread(trace: bytes) -> list[dict[str, Any]]:
    """Return the tasks of the page's main thread: one per frame, and smaller ones."""
    events = json.loads(trace)["traceEvents"]
    renderers = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    return [
        event
        for event in events
        if event.get("name") in ("RunTask", "ThreadControllerImpl::RunTask")
        and (event["pid"], event["tid"]) in renderers
    ]
