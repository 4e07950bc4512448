"""Runs that hold everything a log may: NaN, gaps, late rows, rollbacks, commands, checkpoints."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from klarm.cli.demo import RECORDINGS, read_recording
from klarm.monitor import Monitor
from klarm.types import Command

SPARSE = ("reward_std", "kl_old", "clip_fraction")


@dataclass
class Act:
    """One thing that happens to a run."""

    do: Callable[[Monitor], object]
    is_row: bool = True


@dataclass
class RandomRun:
    """What happens to a run, the same for every monitor that it happens to."""

    seed: int
    commands: bool = True
    rollbacks: bool = True
    step: int = 0
    _held: float = 0.5
    _broken: int = 0
    rows: dict[int, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        recording = self._rng.choice(sorted(RECORDINGS))
        self._recording = [
            {name: float(value) for name, value in row.items() if name != "step"}
            for row in read_recording(recording)
        ]
        for row in self._recording:
            row.pop("length", None)

    def acts(self, count: int) -> list[Act]:
        return [self._act() for _ in range(count)]

    def _act(self) -> Act:
        rng, chance = self._rng, self._rng.random()
        if chance < 0.02 and self.commands:
            return self._command(rng.choice(["close", "accept"]), rng.random())
        if chance < 0.03:
            step = self.step
            return Act(lambda monitor: monitor.checkpoint(step, f"/ckpt/{step}"), is_row=False)
        if chance < 0.1 and self.step > 5:
            late = self.step - rng.randint(1, 5)
            return self._log({"length": rng.gauss(100.0, 1.0), "my/metric": 1.0}, late)
        if chance < 0.12 and self.rows:
            known = rng.choice(sorted(self.rows)[-20:])
            return self._log(self.rows[known], known)
        if chance < 0.13 and self.step > 5 and self.rollbacks:
            self.step = max(0, self.step - rng.randint(1, 60))
            self.rows = {at: row for at, row in self.rows.items() if at < self.step}
        return self._row()

    def _row(self) -> Act:
        rng = self._rng
        row = dict(self._recording[self.step % len(self._recording)])
        row["kl"] = row["kl"] * rng.lognormvariate(0, 0.2)
        if self._broken or rng.random() < 0.01:
            self._broken = (self._broken or rng.randint(3, 40)) - 1
            row["kl"] *= 60.0
        if rng.random() < 0.02:
            row[rng.choice(sorted(row))] = rng.choice([math.nan, math.inf, -math.inf, 1e12])
        if rng.random() < 0.2:
            row.pop(rng.choice(sorted(row)), None)
        if self.step % 7 == 0:
            row[rng.choice(SPARSE)] = rng.random()
        if self.step % 5 == 0:
            self._held = rng.gauss(0.5, 0.1)
        row["entropy"] = self._held
        step = self.step
        self.step += rng.choice([1, 1, 1, 2])
        self.rows[step] = row
        return self._log(row, step)

    def _log(self, row: dict[str, float], step: int) -> Act:
        return Act(lambda monitor: monitor.log(row, step))

    def _command(self, kind: str, which: float) -> Act:
        def apply(monitor: Monitor) -> None:
            open_ones = [incident for incident in monitor.incidents if incident.is_open]
            if open_ones:
                chosen = open_ones[int(which * len(open_ones))]
                key = f"{chosen.id}-{which}"
                monitor.hand_over(
                    Command(command=kind, key=key, time=0.0, by="ada", incident=chosen.id)  # type: ignore[arg-type]
                )

        return Act(apply, is_row=False)
