"""Flips bytes in the snapshots of a run: nothing may be silently wrong.

    python tests/faults/snapshot_flips.py [--flips 500]

A run with incidents is resumed with one byte changed somewhere, and once without any snapshot. What
it says from then on must be the same, and what is damaged must be said.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from klarm.config import load
from klarm.console import Console
from klarm.journal import FileJournal
from klarm.monitor import Monitor
from klarm.notices import Notices
from klarm.snapshots import FOLDER

ROWS, AFTER, EVERY = 400, 60, 40
FLIPS = 500


class Heard(Notices):
    """Keeps what is said."""

    def __init__(self) -> None:
        super().__init__(muted=True)
        self.lines: list[str] = []

    def warn(self, message: str) -> None:
        self.lines.append(message)


def rows(seed: int) -> Iterator[dict[str, float]]:
    """Yield rows of a run that breaks now and then."""
    rng = random.Random(seed)
    for step in count():
        broken = step % 130 > 110
        kl = 0.02 * rng.lognormvariate(0, 0.3) * (80.0 if broken else 1.0)
        loss = math.nan if step == 200 else rng.gauss(1.0, 0.1)
        yield {"kl": kl, "reward": rng.gauss(0.5, 0.1), "loss": loss, "entropy": 0.8}


def watch(folder: Path, heard: Notices) -> Monitor:
    """Begin or continue a run, everything in it being the same each time."""
    config, now, ids = load(), count(), count()
    return Monitor(
        "flips",
        config.detectors(),
        FileJournal(folder, print),
        Console(enabled=False, notices=heard),
        rules=config.incident_rules(),
        ids=lambda signal, started, opened: f"{signal}-{started}-{opened}-{next(ids)}",
        clock=lambda: float(next(now)),
        snapshot_rows=EVERY,
    )


def record(folder: Path) -> list[dict[str, float]]:
    """Train a run with snapshots; return the rows that come after it."""
    monitor = watch(folder, Heard())
    source = rows(7)
    for step in range(ROWS):
        monitor.log(next(source), step)
    writer = monitor._past._keeper._writer
    assert writer is not None
    writer._jobs.put(None)  # it ends when everything is written
    writer._thread.join()
    monitor._fall_silent()
    return [next(source) for _ in range(AFTER)]


def go_on(folder: Path, after: list[dict[str, float]], first: int) -> tuple[bytes, list[str]]:
    """Continue the run at a step; return what it adds to the journal, and what is said."""
    heard = Heard()
    begin = (folder / "journal.jsonl").stat().st_size
    monitor = watch(folder, heard)
    for step, row in enumerate(after, first):
        monitor.log(row, step)
    monitor.finish()
    return (folder / "journal.jsonl").read_bytes()[begin:], heard.lines


def flip(folder: Path, rng: random.Random) -> str:
    """Change a byte of a snapshot; return which one."""
    chosen = rng.choice(sorted((folder / FOLDER).glob("*.snapshot")))
    content = bytearray(chosen.read_bytes())
    place = rng.randrange(len(content))
    content[place] ^= rng.randrange(1, 256)
    chosen.write_bytes(bytes(content))
    return chosen.name


def sweep(flips: int, seed: int = 0) -> tuple[int, int]:
    """Return how many flips changed what is said of the run, and how many went unsaid."""
    rng = random.Random(seed)
    wrong = unsaid = 0
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        after = record(place / "run")
        expected: dict[int, bytes] = {}
        for number in range(flips):
            first = rng.choice([ROWS, ROWS - 130, 30])  # also of a run that goes back
            if first not in expected:
                shutil.copytree(place / "run", place / "plain")
                shutil.rmtree(place / "plain" / FOLDER)
                expected[first], _ = go_on(place / "plain", after, first)
                shutil.rmtree(place / "plain")
            shutil.copytree(place / "run", place / "flipped")
            damaged = flip(place / "flipped", rng)
            found, said = go_on(place / "flipped", after, first)
            shutil.rmtree(place / "flipped")
            wrong += found != expected[first]
            unsaid += not any(damaged in line and "is ignored" in line for line in said)
            if sys.stderr.isatty() and number % 50 == 0:
                print(f"{number} of {flips}", file=sys.stderr)
    return wrong, unsaid


def main(arguments: list[str] | None = None) -> int:
    """Flip, print a line, and return 1 if anything was wrong or unsaid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=FLIPS)
    flips = parser.parse_args(arguments).flips
    wrong, unsaid = sweep(flips)
    print(f"{flips} flipped bytes in snapshots: {wrong} changed what is said, {unsaid} went unsaid")
    return int(bool(wrong or unsaid))


if __name__ == "__main__":
    sys.exit(main())
