"""Journals to measure with, written as a monitor writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from klarm.journal import FILE_NAME, FileJournal, Started

METRICS = (
    *("kl", "reward", "entropy", "loss", "grad_norm", "learning_rate", "clip_fraction", "length"),
    *("reward_std", "advantage_std"),
)
# What a trainer with custom metrics logs.
MANY_METRICS = (*METRICS, *(f"custom/metric_{number}" for number in range(30)))
STEPS = 1_000_000
SPIKE = 654_321
BEGAN = 1_763_200_000.0


def rows(
    steps: int, seed: int = 0, spike: int | None = None, names: Sequence[str] = METRICS
) -> Iterator[dict[str, float]]:
    """Yield the values of each step."""
    generator = np.random.default_rng(seed)
    for first in range(0, steps, 10_000):
        values = generator.normal(1.0, 0.1, (min(10_000, steps - first), len(names))).tolist()
        for row, numbers in enumerate(values):
            metrics = dict(zip(names, numbers, strict=True))
            if first + row == spike:
                metrics["kl"] = 99.0
            yield metrics


def write_run(
    folder: Path,
    steps: int,
    seed: int = 0,
    spike: int | None = None,
    names: Sequence[str] = METRICS,
) -> None:
    journal = FileJournal(folder, print)
    journal.record(Started(folder.name, BEGAN, "", "", {}))
    for step, metrics in enumerate(rows(steps, seed, spike, names)):
        journal.step(step, BEGAN + step, metrics)
    journal.close(60.0)
    size = (folder / FILE_NAME).stat().st_size
    if steps >= STEPS:
        print(f"{folder.name}: {steps:,} steps, {size / 1e6:,.0f} MB")


def write_many(root: Path, runs: int, steps: int, names: Sequence[str] = METRICS) -> None:
    for number in range(runs):
        write_run(root / f"run-{number:04}", steps, seed=number, names=names)


def copy_run(folder: Path, root: Path, runs: int) -> None:
    """Make many runs that are alike, and that no process trains."""
    journal = (folder / FILE_NAME).read_bytes()
    for number in range(runs):
        copy = root / f"run-{number:05}"
        copy.mkdir(parents=True)
        (copy / FILE_NAME).write_bytes(journal)
