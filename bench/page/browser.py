"""Measures what users see: first paint, scrolling, and a point that was just logged."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from statistics import median, quantiles

from playwright.sync_api import Page
from site_under_test import running_server

from page.chromium import Painted, painted, scrolled, started
from page.indexing import LIVE_RUNS, LIVE_SECONDS
from page.journals import METRICS
from page.targets import at_most
from table import Row

_SCROLL_SECONDS = 5.0


def first_paint(root: Path, peer: Painted) -> list[Row]:
    """Open a run of a million steps, once the server has indexed it."""
    with running_server(root) as server, started() as browser:
        _wait_until_read(server.address)
        found = painted(browser, f"{server.address}/runs/long", ".metric canvas", len(METRICS))
        weight = _weight(server.address)
    return [
        at_most("1,000,000 steps × 10: first chart painted", "s", found.first, 1.0, peer.first),
        at_most("1,000,000 steps × 10: all charts painted", "s", found.all, 1.0, peer.all),
        at_most("page weight, gzipped", "kB", weight / 1000, 150),
    ]


def overview(root: Path) -> list[Row]:
    """Open the overview of a thousand runs and scroll through it."""
    with running_server(root) as server, started() as browser:
        _wait_until_read(server.address)
        rows = painted(browser, server.address, ".run-row .spark path", 30)
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.goto(server.address)
        page.wait_for_selector(".run-row")
        page.wait_for_timeout(2000)  # only scrolling is measured
        found = scrolled(browser, page, _SCROLL_SECONDS)
    return [
        at_most("1,000 runs: the overview painted", "s", rows.all, 1.0),
        at_most("1,000 runs: longest frame while scrolling", "ms", found.longest_work * 1000, 50),
        Row("the same in processor time", "ms", found.longest_processor_time * 1000),
        Row("longest gap between two frames", "ms", found.longest_gap * 1000),
        Row("1,000 runs: frames in that trace", "", found.frames),
    ]


# Notes when a value is first shown, two frames after it came into the document.
_WATCH = """
(sought) => {
  window.seen = {};
  const look = () => {
    for (const element of document.querySelectorAll(sought)) {
      const run = element.closest("[data-run]")?.dataset.run ?? "watched";
      const step = Number(element.textContent.replace(/[^0-9.]/g, ""));
      const key = `${run} ${step}`;
      if (step && !(key in window.seen)) {
        window.seen[key] = 0;
        requestAnimationFrame(() => {
          window.seen[key] = performance.timeOrigin + performance.now();
        });
      }
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}
"""


def live(root: Path) -> list[Row]:
    """Watch one run and the overview while another process trains 50 runs."""
    root.mkdir()
    written = root.parent / "written.json"
    trains = [sys.executable, "-m", "page.training", str(root), str(written)]
    with running_server(root) as server, started() as browser:
        writer = subprocess.Popen([*trains, str(LIVE_RUNS), str(LIVE_SECONDS)])
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        run, every = context.new_page(), context.new_page()
        _open(every, f"{server.address}/?sort=name", ".run-row")
        _open(run, f"{server.address}/runs/run-00", ".metric.large canvas")
        run.evaluate(f"({_WATCH})('.metric.large .readout')")
        every.evaluate(f"({_WATCH})('.run-row .cell-step')")
        begin = time.time() * 1000
        writer.wait(LIVE_SECONDS + 60)
        time.sleep(2.0)
        drawn = run.evaluate("window.seen")
        listed = every.evaluate("window.seen")
    times = json.loads(written.read_text())
    drawn = {key.replace("watched", "run-00"): at for key, at in drawn.items()}
    on_run, on_overview = _delays(times, drawn, begin), _delays(times, listed, begin)
    return [
        Row(f"50 live runs: line to point drawn, median of {len(on_run)}", "s", median(on_run)),
        at_most("50 live runs: line to point drawn, p95", "s", quantiles(on_run, n=20)[-1], 1.0),
        Row(
            f"50 live runs: line to overview, median of {len(on_overview)}",
            "s",
            median(on_overview),
        ),
        at_most("50 live runs: line to overview, p95", "s", quantiles(on_overview, n=20)[-1], 1.0),
    ]


def _open(page: Page, address: str, sought: str) -> None:
    page.goto(address)
    page.wait_for_selector(sought, timeout=60_000)


def _delays(written: dict[str, float], seen: dict[str, float], begin: float) -> list[float]:
    """Return the seconds until each line was drawn, perhaps together with later ones."""
    runs = {key.split()[0] for key in seen}
    delays = []
    for run in runs:
        shown = sorted(
            (int(key.split()[1]), at) for key, at in seen.items() if key.split()[0] == run
        )
        for key, at in written.items():
            name, step = key.split()
            if name != run or at * 1000 < begin:
                continue
            drawn = [when for number, when in shown if number >= int(step) and when]
            if drawn:
                delays.append(min(drawn) / 1000 - at)
            elif int(step) <= shown[-1][0]:
                raise AssertionError(f"{key} was never drawn")
    return delays


def _wait_until_read(address: str) -> None:
    while True:
        with urllib.request.urlopen(f"{address}/api/v1/runs?sparklines=false") as answer:
            found = json.load(answer)
        if found["runs"] and found["indexing"] is None:
            return
        time.sleep(0.2)


def _weight(address: str) -> int:
    """Return the compressed size of the page in bytes, without the answers of the API."""
    with urllib.request.urlopen(address) as answer:
        index = answer.read()
    total = len(gzip.compress(index))
    for asset in re.findall(rb'(?:src|href)="(/[^"]+)"', index):
        asked = urllib.request.Request(
            address + asset.decode(), headers={"Accept-Encoding": "gzip"}
        )
        with urllib.request.urlopen(asked) as answer:
            total += len(answer.read())
    return total
