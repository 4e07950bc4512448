"""Event files as torch's SummaryWriter really writes them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from torch.utils.tensorboard import SummaryWriter

import klarm
from klarm.journal.records import Source
from klarm.sources import LogRow, read_log
from klarm.sources.follow import Follower


def read(path: str) -> list[LogRow]:
    return [row for row in read_log(Path(path), pytest.fail) if isinstance(row, LogRow)]


def test_scalars_are_read_as_they_were_written() -> None:
    """Old style and new, beside text, histograms, pictures and hyperparameters."""
    with SummaryWriter("tb") as writer:
        writer.add_text("prompt", "What is 2+2?", 0)
        for step in range(1, 4):
            writer.add_scalar("train/kl", 0.25 * step, step)
            writer.add_scalar("train/reward", -0.5, step, new_style=True)
            writer.add_scalar("train/grad_norm", 2.0**-40, step, double_precision=True)
            writer.add_histogram("advantages", np.arange(100.0), step)
            writer.add_image("sample", np.zeros((3, 700, 700), dtype=np.uint8), step)
        writer.add_scalar("train/kl", math.nan, 4)
        writer.add_hparams({"lr": 1e-6}, {"hparam/reward": 1.0})
    *rows, last = read("tb")
    assert rows == [
        LogRow(
            step,
            {
                "train/kl": 0.25 * step,
                "train/reward": -0.5,
                "train/grad_norm": 2.0**-40,
            },
        )
        for step in (1, 2, 3)
    ]
    assert last.step == 4
    assert math.isnan(float(str(last.metrics["train/kl"])))


def test_a_run_is_followed_over_the_restart_of_its_trainer() -> None:
    """Which begins a new file at the step of its checkpoint."""
    follower = Follower(Path("tb"), Path("klarm_runs/a/journal.jsonl"), lambda _: None)
    monitor = klarm.init("a", console=False)

    def poll() -> list[object]:
        steps: list[object] = []
        for row in follower.poll():
            if isinstance(row, Source):
                monitor._source(row)
            else:
                steps.append(row.step)
                monitor.log(row.metrics, row.step)
        return steps

    assert poll() == []
    with SummaryWriter("tb", filename_suffix=".0") as writer:
        for step in range(5):
            writer.add_scalar("train/kl", 0.1, step)
        writer.flush()
        assert poll() + poll() == [0, 1, 2, 3, 4]
    with SummaryWriter("tb", filename_suffix=".1") as writer:
        for step in range(3, 6):
            writer.add_scalar("train/kl", 0.2, step)
    assert poll() + poll() == [3, 4, 5]
    again = Follower(Path("tb"), Path("klarm_runs/a/journal.jsonl"), pytest.fail)
    assert [*again.poll(), *again.poll()] == []
