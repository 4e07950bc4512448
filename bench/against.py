"""Compares the speed of `log` with an earlier commit, in one run.

`make bench-against REV=HEAD~1` runs it. Processes of the two versions alternate, so that other load
on the machine affects both. Only the public API is used. The control compares the earlier commit
with itself: differences within its interval are noise.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
TURNS = 12
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}

# Runs in a separate process with one of the two versions, and prints percentiles in nanoseconds.
MEASURE = """
import json, random, sys
from time import perf_counter_ns
import klarm
names = ["kl", "entropy", "reward_mean", "reward_std", "advantage_std", "loss", "learning_rate",
         "clip_fraction", "grad_norm", "length"]
rng = random.Random(int(sys.argv[1]))
rows = [{name: rng.uniform(0.4, 0.6) for name in names} for _ in range(20_000)]
klarm.init("run", console=False)
spent = []
for step, row in enumerate(rows):
    start = perf_counter_ns()
    klarm.log(row, step)
    spent.append(perf_counter_ns() - start)
spent = sorted(spent[1_000:])
print(json.dumps({key: spent[int(len(spent) * float(share))]
                  for key, share in json.loads(sys.argv[2]).items()}))
"""


def main() -> None:
    """Measure both, and show the ratios."""
    revision = sys.argv[1] if len(sys.argv) > 1 else "HEAD~1"
    with tempfile.TemporaryDirectory() as place:
        before = Path(place) / "before"
        before.mkdir()
        archive = subprocess.run(
            ["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", before], input=archive.stdout, check=True)
        sources = {"now": ROOT / "src", "before": before / "src", "again": before / "src"}
        measured: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
        for turn in range(TURNS):
            for name, source in sources.items():
                measured[name].append(measure(source, turn))
            print(f"\rturn {turn + 1} of {TURNS}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"`log` with ten metrics and all detectors, this checkout against {revision}")
    for key in SHARES:
        columns = {name: [row[key] for row in rows] for name, rows in measured.items()}
        ratio = interval(columns["now"], columns["before"])
        control = interval(columns["again"], columns["before"])
        was, now = median(columns["before"]) / 1000, median(columns["now"]) / 1000
        print(f"{key:6} {was:8.1f} µs -> {now:8.1f} µs   {spell(ratio)}   control {spell(control)}")


def measure(source: Path, seed: int) -> dict[str, float]:
    """Return how long a call of `log` takes in a process with this version."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(seed), json.dumps(SHARES)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=True,
        )
    return dict(json.loads(done.stdout))


def interval(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """Return the ratio of the medians, and its 95 % interval by bootstrap over the turns."""
    rng = random.Random(1)
    drawn = []
    for _ in range(2_000):
        turns = [rng.randrange(len(ours)) for _ in ours]
        drawn.append(median(ours[t] for t in turns) / median(theirs[t] for t in turns))
    drawn.sort()
    return median(ours) / median(theirs), drawn[50], drawn[-51]


def spell(ratio: tuple[float, float, float]) -> str:
    """Return a ratio with its interval."""
    return f"{ratio[0]:.2f} [{ratio[1]:.2f}-{ratio[2]:.2f}]"


if __name__ == "__main__":
    main()
