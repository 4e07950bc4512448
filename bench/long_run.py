"""Measures a run of a million steps: the slowest calls of `log`, resuming and going back.

    make bench-long OPTIONS="--steps 1000000"

Some rows are late or repeated, and snapshots are taken. Each number comes from a separate process.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

STEPS = 1_000_000
LATE_EVERY, REPEAT_EVERY = 50, 400
# The targets, in milliseconds, seconds and megabytes.
MAX_LOG_MS, MAX_RESUME_SECONDS, MAX_RESUME_MB, MAX_BACK_MS = 5.0, 2.0, 150.0, 150.0


def rows(seed: int) -> Iterator[dict[str, float]]:
    """Yield rows like those of GRPO, without end."""
    rng = random.Random(seed)
    while True:
        yield {
            "kl": 0.02 * rng.lognormvariate(0, 0.3),
            "reward": rng.gauss(0.5, 0.1),
            "reward_std": rng.lognormvariate(-1.5, 0.1),
            "entropy": rng.gauss(0.8, 0.02),
            "grad_norm": rng.lognormvariate(0, 0.2),
            "loss": rng.gauss(0.05, 0.01),
            "length": rng.gauss(250.0, 9.0),
            "learning_rate": 1e-6,
            "clip_fraction": rng.random() / 50,
        }


def calls(begin: int, end: int, seed: int) -> Iterator[tuple[dict[str, float], int]]:
    """Yield the rows between two steps; some are late, some are repeated."""
    rng, source = random.Random(seed), rows(seed)
    last: dict[str, float] = {}
    for step in range(begin, end):
        row = next(source)
        yield row, step
        if step % LATE_EVERY == LATE_EVERY - 1:
            yield {"zero_std_fraction": rng.random() / 10}, step - 1
        if step % REPEAT_EVERY == REPEAT_EVERY - 1 and last:
            yield last, step - 1
        last = row


def train(folder: Path, steps: int) -> dict[str, float]:
    """Log some steps; return the percentiles of a call in milliseconds."""
    import klarm

    klarm.init("long", dir=str(folder), console=False)
    log, clock = klarm.log, time.perf_counter
    took = array("d")
    for row, step in calls(0, steps, seed=1):
        begin = clock()
        log(row, step)
        took.append(clock() - begin)
    klarm.finish()
    ordered = sorted(took)
    share = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}
    found = {name: 1000 * ordered[int(part * len(ordered))] for name, part in share.items()}
    return {**found, "max": 1000 * ordered[-1]}


def resume(folder: Path, steps: int) -> dict[str, float]:
    """Resume the run, then go back within the process; return how long each took."""
    source = calls(steps, steps + 6_000, seed=3)
    begin = time.perf_counter()
    import klarm

    watched = klarm.init("long", dir=str(folder), console=False)
    klarm.log(*next(source))
    resumed = time.perf_counter() - begin
    for row, step in source:
        klarm.log(row, step)
    at, back = steps + 6_000, [0.0]
    for distance in (50, 1_000, 1_900):
        at -= distance
        begin = time.perf_counter()
        watched.resume(at)
        back.append(1000 * (time.perf_counter() - begin))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    klarm.finish()
    return {"seconds": resumed, "megabytes": memory, "back_ms": max(back)}


def main(arguments: list[str] | None = None) -> int:
    """Measure in separate processes and print a table; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--part", choices=["train", "resume"])
    given = parser.parse_args(arguments)
    if given.part:
        part = train if given.part == "train" else resume
        print(json.dumps(part(given.folder, given.steps)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = {part: _apart(part, Path(folder), given.steps) for part in ("train", "resume")}
    logged, resumed = found["train"], found["resume"]
    table = [
        ("log, p50", logged["p50"], "ms", None),
        ("log, p99.9", logged["p99.9"], "ms", MAX_LOG_MS),
        ("log, slowest", logged["max"], "ms", None),
        ("resume", resumed["seconds"], "s", MAX_RESUME_SECONDS),
        ("memory of the resumed process", resumed["megabytes"], "MB", MAX_RESUME_MB),
        ("rollback, slowest of 3", resumed["back_ms"], "ms", MAX_BACK_MS),
    ]
    for what, value, unit, limit in table:
        wanted = "" if limit is None else f"under {limit:g}"
        print(f"{what:32} {value:10.3f} {unit:3} {wanted}")
    return int(any(limit is not None and value >= limit for _, value, _, limit in table))


def _apart(part: str, folder: Path, steps: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--part", part, "--folder", str(folder)]
    done = subprocess.run(
        [*command, "--steps", str(steps)], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
