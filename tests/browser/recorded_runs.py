"""Writes journals of real and made-up runs, as the monitor of a training process writes them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from klarm.cli.demo import read_recording
from klarm.config import load
from klarm.journal import FileJournal, Started, run_folder
from klarm.monitor import Monitor
from klarm.version import __version__

Row = Mapping[str, object]


class RecordedRun:
    """A run that is written step by step; until `finish` or `abandon`, it is training."""

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        host: str = "node-1",
        framework: str = "trl",
        seconds_per_step: float = 0.0,
        started: float | None = None,
        **overrides: object,
    ) -> None:
        config = load(overrides=overrides, recorded={})
        self.folder = run_folder(str(folder), name)
        self._now = started
        self._seconds_per_step = seconds_per_step
        self._journal = FileJournal(self.folder, print)
        self._journal.record(
            Started(
                run=name,
                started=self._clock(),
                klarm=__version__,
                host=host,
                config=config.as_dict(),
                framework=framework,
            )
        )
        self.monitor = Monitor(
            name,
            config.detectors(),
            self._journal,
            rules=config.incident_rules(),
            framework=framework,
            clock=self._clock,
        )

    def log(self, rows: Iterable[Row], checkpoints: Path | None = None, every: int = 20) -> None:
        """Log rows, each with its `step`; save a checkpoint now and then."""
        for row in rows:
            step = int(str(row["step"]))
            if self._now is not None:
                self._now += self._seconds_per_step
            self.monitor.log({key: value for key, value in row.items() if key != "step"}, step=step)
            if checkpoints is not None and step % every == 0:
                place = checkpoints / f"checkpoint-{step}"
                place.mkdir(parents=True, exist_ok=True)
                (place / "state").touch()
                self.monitor.checkpoint(step, place)

    def finish(self) -> None:
        """End the run as a training process does that ends well."""
        self.monitor.finish()

    def abandon(self) -> None:
        """End the run as a process does that is killed: nothing is said."""
        self._journal.close(1.0)

    def _clock(self) -> float:
        return time.time() if self._now is None else self._now


def exploding() -> list[Row]:
    """Return a recorded GRPO run whose learning rate jumps ×100 after step 150."""
    return list(read_recording("exploding"))


def healthy(steps: int = 200, seed: int = 1) -> Iterator[Row]:
    """Return a run that learns, in noise that does not alarm."""
    noise = random.Random(seed)
    for step in range(1, steps + 1):
        progress = 1.0 - math.exp(-step / 120)
        yield {
            "step": step,
            "kl": 0.02 + 0.03 * progress + noise.uniform(-0.002, 0.002),
            "reward": 0.3 + 0.4 * progress + noise.uniform(-0.02, 0.02),
            "entropy": 1.4 - 0.3 * progress + noise.uniform(-0.02, 0.02),
            "loss": 0.05 + noise.uniform(-0.01, 0.01),
            "grad_norm": 0.6 + noise.uniform(-0.05, 0.05),
            "learning_rate": 2e-5,
        }


def explosion(after: int, steps: int = 30) -> Iterator[Row]:
    """Return the steps after a healthy run in which KL explodes."""
    for step in range(after + 1, after + steps + 1):
        factor = 1.6 ** (step - after)
        yield {
            "step": step,
            "kl": min(0.05 * factor, 60.0),
            "reward": 0.7 - 0.01 * (step - after),
            "entropy": 1.1,
            "loss": 0.05 * factor,
            "grad_norm": 0.6 * factor,
            "learning_rate": 2e-5,
        }
