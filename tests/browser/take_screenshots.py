"""Takes the pictures of docs/page.md: `make screenshots`.

A real server, real journals, a real Chromium; only the clock of the runs is made up.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from recorded_runs import RecordedRun, exploding, healthy
from site_under_test import Site, find_chromium, running_server

from klarm.cli.demo import read_recording

DESKTOP = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}
SECONDS_PER_STEP = 41.0


def main(target: Path) -> None:
    """Write a picture of every view into a folder."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        target = target.resolve()
        os.chdir(place)  # so that the pictures show short paths
        runs = Path("klarm_runs")
        training = write_runs(runs, Path("checkpoints"))
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        with running_server(runs.resolve()) as server:
            site = Site(browser, server)
            for name, path, options in views(site):
                page = site.open(path, **{"viewport": DESKTOP, "color_scheme": "light", **options})
                wait_until_drawn(page)
                save(page.screenshot(), target / f"page-{name}.png")
                page.context.close()
        browser.close()
        for run in training:
            run.finish()


def write_runs(folder: Path, checkpoints: Path) -> list[RecordedRun]:
    """Write six runs; return those that are still training."""
    now = time.time()

    def begin(name: str, steps: int, host: str, late: float = 0.0, **more: Any) -> RecordedRun:
        started = now - late - steps * SECONDS_PER_STEP
        return RecordedRun(
            folder, name, host=host, seconds_per_step=SECONDS_PER_STEP, started=started, **more
        )

    burning = begin("grpo-7b-math-lr2e5", 190, "h100-03")
    burning.log(exploding()[:190], checkpoints / "grpo-7b-math-lr2e5")
    drifting = begin("grpo-7b-math-beta0", 400, "h100-04", kl_explosion={"baseline_mode": "frozen"})
    drifting.log(read_recording("drifting"), checkpoints / "grpo-7b-math-beta0")
    fine = begin("grpo-7b-math-baseline", 300, "h100-01")
    fine.log(read_recording("healthy"), checkpoints / "grpo-7b-math-baseline")
    other = begin("ppo-1b-chat-seed2", 240, "a100-11", framework="verl")
    other.log(healthy(240, seed=2))
    done = begin("ppo-1b-chat-seed1", 260, "a100-10", late=7200, framework="verl")
    done.log(healthy(260, seed=3))
    done.finish()
    over = begin("grpo-7b-math-lr1e4", 300, "h100-02", late=86400)
    over.log(exploding(), checkpoints / "grpo-7b-math-lr1e4")
    over.finish()
    return [burning, drifting, fine, other]


def views(site: Site) -> list[tuple[str, str, dict[str, Any]]]:
    """Return name, address and browser options of each picture."""
    page = site.open()
    answer = page.evaluate("fetch('/api/v1/runs').then((answer) => answer.json())")
    page.context.close()
    named = {run["name"]: run for run in answer["runs"]}
    burning = named["grpo-7b-math-lr2e5"]
    run = f"/runs/{burning['id']}"
    incident = f"{run}/incidents/{burning['worst']['id']}"
    compared = ",".join(
        named[name]["id"]
        for name in ("grpo-7b-math-lr2e5", "grpo-7b-math-beta0", "grpo-7b-math-baseline")
    )
    what_if = f"{run}/what-if?set=kl_explosion.sigma_multiplier:6"
    phone = {"viewport": PHONE, "is_mobile": True, "has_touch": True}
    dark = {"color_scheme": "dark"}
    return [
        ("overview", "/", {"viewport": {"width": 1360, "height": 560}}),
        ("run", run, {}),
        ("incident", incident, {"viewport": {"width": 1280, "height": 1000}}),
        ("compare", f"/compare?runs={compared}&smooth=0.8", {}),
        ("what-if", what_if, {}),
        ("run-dark", f"{run}?smooth=0.8", dark),
        ("overview-dark", "/", {**dark, "viewport": {"width": 1360, "height": 560}}),
        ("incident-dark", incident, dark),
        ("overview-phone", "/", phone),
        ("run-phone", run, phone),
        ("incident-phone", incident, phone),
    ]


def wait_until_drawn(page: Page) -> None:
    """Wait until nothing is loading and the charts are there."""
    page.locator("canvas, .spark").first.wait_for()
    page.locator(".outcome, .charts, .run-rows, .aligned").first.wait_for()
    page.wait_for_timeout(1200)


def save(picture: bytes, path: Path) -> None:
    """Write a picture with as many colours as it needs, a third of its size."""
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(192).save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
