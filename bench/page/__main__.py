"""Measures `klarm serve` and writes bench/results/page.json. A missed target is not an error.

Parts can be picked: `make bench-page OPTIONS="indexing paint overview live"`.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from pathlib import Path

from page import browser, indexing, tensorboard
from page.journals import MANY_METRICS, SPIKE, STEPS, write_many, write_run
from table import Row, show, write

RESULTS = Path(__file__).resolve().parents[1] / "results"
PARTS = ("indexing", "paint", "overview", "live")


def main() -> None:
    wanted = sys.argv[1:] or PARTS
    if unknown := set(wanted) - set(PARTS):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; parts are {', '.join(PARTS)}")
    load = os.getloadavg()[0]  # before it adds to it
    measured: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="klarm-bench-") as folder:
        root = Path(folder)
        if "indexing" in wanted:
            write_run(root / "long" / "long", STEPS, spike=SPIKE, names=MANY_METRICS)
        if "paint" in wanted:
            write_run(root / "paint" / "long", STEPS, spike=SPIKE)
        if {"indexing", "overview"} & set(wanted):
            write_many(root / "many", indexing.RUNS, indexing.STEPS_PER_RUN, MANY_METRICS)
        if "indexing" in wanted:
            measured += indexing.long_run(root / "long")
            measured += indexing.many_runs(root / "many")
            measured += indexing.huge_line(root / "huge")
            measured += indexing.idle_runs(root / "idle")
            measured += indexing.live_runs(root / "events")
        if "paint" in wanted:
            peers = tensorboard.first_paint(root / "tensorboard")
            measured += browser.first_paint(root / "paint", peers)
        if "overview" in wanted:
            measured += browser.overview(root / "many")
        if "live" in wanted:
            measured += browser.live(root / "live")
    machine = {
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "load before": round(load, 1),
    }
    show(measured, machine, peer="TensorBoard")
    RESULTS.mkdir(exist_ok=True)
    write(measured, machine, RESULTS / "page.json", peer="TensorBoard")


if __name__ == "__main__":
    main()
