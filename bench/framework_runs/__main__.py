"""Trains every run that is not in the file yet, and appends it there.

`make framework-runs` calls it. OPTIONS may name the runs to train (parts of their names) and limit
the time: OPTIONS="sb3-ppo --minutes 10". Several may train at once, of different names.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.metadata import version
from io import StringIO
from time import perf_counter
from typing import Any

from framework_runs import archive
from framework_runs.run import Recording, Run

FRAMEWORKS = ("trl", "sb3", "rllib")
PACKAGES = ("trl", "transformers", "torch", "stable-baselines3", "ray", "gymnasium")


def main() -> None:
    """Train the missing runs in order, until all are done or the time is over."""
    asked = arguments()
    there = archive.read()
    print("importing the frameworks ...", flush=True)
    modules = {name: import_module(f"framework_runs.{name}") for name in FRAMEWORKS}
    versions = {package: version(package) for package in PACKAGES}
    runs = [run for module in modules.values() for run in module.RUNS]
    wanted = [run for run in runs if any(part in run.name for part in asked.runs or [""])]
    missing = [run for run in wanted if run.name not in there]
    print(f"{len(wanted) - len(missing)} of {len(wanted)} runs are there", flush=True)
    began = perf_counter()
    for number, run in enumerate(missing, 1):
        if perf_counter() - began > 60 * asked.minutes:
            print(f"time is over: {len(missing) - number + 1} runs are missing")
            break
        train(run, modules[run.framework].record, versions, f"[{number}/{len(missing)}]")
    summarise(archive.entries(archive.read()))


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser("framework_runs", description=__doc__)
    parser.add_argument("runs", nargs="*", help="parts of the names of the runs to train")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no run later")
    return parser.parse_args()


def train(
    run: Run, record: Callable[[Run], Recording], versions: Mapping[str, str], progress: str
) -> None:
    """Train one run and append it, showing how long it took."""
    print(f"{progress} {run.name}: {run.rows} rows, {run.changed} ...", end="", flush=True)
    began = perf_counter()
    said = StringIO()  # progress bars and notes of the framework
    try:
        with redirect_stdout(said), redirect_stderr(said):
            recording = record(run)
    except BaseException:
        sys.stderr.write(said.getvalue())
        raise
    if not recording.rows:
        raise RuntimeError(f"{run.name} ended before its first row:\n{said.getvalue()}")
    archive.append(run, recording, versions)
    print(f" {len(recording.rows)} rows in {perf_counter() - began:.0f} s", flush=True)


def summarise(entries: Iterable[dict[str, Any]]) -> None:
    """Print how many runs there are of each kind."""
    counts = Counter((e["framework"], e["algorithm"], e["label"], e["split"]) for e in entries)
    for (framework, algorithm, label, split), count in sorted(counts.items()):
        print(f"{framework:6} {algorithm:6} {label:9} {split:10} {count:3}")
    print(f"{sum(counts.values())} runs in {archive.FILE}")


if __name__ == "__main__":
    main()
