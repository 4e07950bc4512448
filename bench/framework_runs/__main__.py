"""Trains every run that does not exist yet, and writes the manifest.

`make framework-runs` calls it. OPTIONS may name the runs to train (parts of their names) and limit
the time: OPTIONS="sb3-ppo --minutes 10".
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from time import perf_counter

from framework_runs import verdict
from framework_runs.run import Recording, Run

FOLDER = Path(__file__).resolve().parents[1] / "results" / "framework_runs"
FRAMEWORKS = ("trl", "sb3", "rllib")
PACKAGES = ("trl", "transformers", "torch", "stable-baselines3", "ray", "gymnasium")
# These are trained first; the others follow in the order of the list.
FIRST = ("trl-grpo-beta0", "sb3-ppo")


def main() -> None:
    """Train the missing runs in order, until all are done or the time is over."""
    asked = arguments()
    FOLDER.mkdir(parents=True, exist_ok=True)
    print("importing the frameworks ...", flush=True)
    modules = {name: import_module(f"framework_runs.{name}") for name in FRAMEWORKS}
    runs = sorted((run for module in modules.values() for run in module.RUNS), key=rank)
    wanted = [run for run in runs if any(part in run.name for part in asked.runs or [""])]
    missing = [run for run in wanted if not log_of(run).exists()]
    print(f"{len(wanted) - len(missing)} of {len(wanted)} runs are there", flush=True)
    began = perf_counter()
    for number, run in enumerate(missing, 1):
        if perf_counter() - began > 60 * asked.minutes:
            print(f"time is over: {len(missing) - number + 1} runs are missing")
            break
        train(run, modules[run.framework].record, f"[{number}/{len(missing)}]")
        write_manifest(runs)
    summarise(write_manifest(runs))


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser("framework_runs", description=__doc__)
    parser.add_argument("runs", nargs="*", help="parts of the names of the runs to train")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no run later")
    return parser.parse_args()


def rank(run: Run) -> int:
    """Return the sort key of a run."""
    return next((i for i, start in enumerate(FIRST) if run.name.startswith(start)), len(FIRST))


def log_of(run: Run) -> Path:
    return FOLDER / f"{run.name}.jsonl"


def train(run: Run, record: Callable[[Run], Recording], progress: str) -> None:
    """Train one run and write its log, showing how long it took."""
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
    recording.write(FOLDER, run.name)
    rows = len(recording.rows)
    print(f" {rows} rows in {perf_counter() - began:.0f} s", flush=True)


def write_manifest(runs: list[Run]) -> list[dict[str, object]]:
    """Judge every recorded run and write the manifest; return its entries."""
    recordings = {
        run.name: Recording.read(FOLDER, run.name) for run in runs if log_of(run).exists()
    }
    entries = []
    for run in runs:
        if run.name not in recordings:
            continue
        unchanged = [
            recordings[other.name]
            for other in runs
            if other.family == run.family and other.change == "none" and other.name in recordings
        ]
        entries.append(entry(run, recordings[run.name], unchanged))
    manifest = {
        "versions": {package: version(package) for package in PACKAGES},
        "rule": verdict.RULE,
        "runs": entries,
    }
    unfinished = FOLDER / "manifest.json.part"
    unfinished.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    unfinished.rename(FOLDER / "manifest.json")
    return entries


def entry(run: Run, recording: Recording, unchanged: list[Recording]) -> dict[str, object]:
    """Return the entry of a run in the manifest."""
    columns = sorted({key for row in recording.rows for key in row} - {"step"})
    old = {"train/approx_kl", "learners/default_policy/mean_kl_loss"}
    return {
        "name": run.name,
        "framework": run.framework,
        "algorithm": run.algorithm,
        "setting": run.setting,
        "seed": run.seed,
        "split": run.split,
        "change": run.change,
        "changed": run.changed,
        "kl_to_reference": "kl" in columns,
        "kl_to_old_policy": bool(old & set(columns)),
        "rows": len(recording.rows),
        "columns": columns,
        **asdict(verdict.judge(run, recording, unchanged)),
        "options": dict(run.options) | {"learning_rate": run.learning_rate},
    }


def summarise(entries: list[dict[str, object]]) -> None:
    """Print how many runs there are of each kind."""
    counts = Counter((e["framework"], e["algorithm"], e["label"], e["split"]) for e in entries)
    for (framework, algorithm, label, split), count in sorted(counts.items()):
        print(f"{framework:6} {algorithm:5} {label:9} {split:10} {count:3}")
    print(f"{len(entries)} runs in {FOLDER}")


if __name__ == "__main__":
    main()
