"""A detector of your own: warns when the pass rate of a benchmark falls far below its best.

    python examples/custom_detector.py [STEPS]

It needs numpy and klarm. The run is made up: from two thirds on it forgets what it had learnt.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import klarm
from klarm import Alert, Detector, Severity, setting


@dataclass(kw_only=True, eq=False)
class ForgettingDetector(Detector):
    """Compares the smoothed pass rate with the best it has been."""

    name: ClassVar[str] = "forgetting"  # its section in klarm.yaml
    signal: ClassVar[str] = "pass_rate"  # what its incidents are about
    watches: ClassVar[tuple[str, ...]] = ("eval/pass_rate",)  # a key as you log it
    worse: ClassVar = "lower"
    messages: ClassVar[Mapping[str, str]] = {
        "warning": "Pass rate {level:2}, down from {best:2} at its best.",
        "critical": "Pass rate {level:2}, down from {best:2} at its best.",
    }
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": "Compare samples with those of the best checkpoint.",
        "critical": "Stop, and go back to the best checkpoint.",
    }

    lost_share: float = setting(0.3, "warning when so much of the best is lost", above=0)
    smoothing: float = setting(0.2, "weight of a new value", above=0)

    def _start(self) -> None:
        self.level: float | None = None
        self.best = 0.0

    def _observe(self, step: int, value: float) -> Alert | None:
        before = value if self.level is None else self.level
        self.level = level = before + self.smoothing * (value - before)
        self.best = max(self.best, level)
        self.score = (1 - level / self.best) / self.lost_share if self.best > 0 else 0.0
        if self.score <= 1:
            return None
        severity: Severity = "critical" if self.score > 2 else "warning"
        return self._alert(severity, step, value, {"level": level, "best": self.best})


def main(steps: int) -> None:
    """Train, in a manner of speaking."""
    noise = np.random.default_rng(0)
    klarm.init("custom-detector", detectors=[ForgettingDetector()])
    for step in range(steps):
        learnt = min(step, 2 * steps // 3) / steps
        forgotten = 3 * max(0, step - 2 * steps // 3) / steps
        rate = 0.2 + 0.9 * learnt * (1 - forgotten) + noise.normal(0, 0.02)
        klarm.log({"kl": 0.02 + noise.normal(0, 0.002), "eval/pass_rate": rate}, step)
    klarm.finish()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 150)
