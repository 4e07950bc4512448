"""Measures klarm's share of a training step: the time in its hooks over the time of the step.

The run is a tiny GRPO run with TRL on the CPU. Its steps take tens of milliseconds, real ones take
seconds, so the share is an upper bound. `make bench-frameworks` runs it and writes the row to
bench/results/framework_share.json.
"""

from __future__ import annotations

import os
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import tiny_trl

from klarm.integrations.trl import KlarmCallback
from table import Row, show, write

RESULTS = Path(__file__).resolve().parent / "results"
STEPS, WARM_STEPS = 200, 20
HOOKS = ("on_step_end", "on_log", "on_save")


class TimedCallback(KlarmCallback):
    """Sums the time that the hooks take, step by step."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.hooks: list[float] = []  # seconds, one sum per step
        self.steps: list[float] = []
        self._began = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        now = perf_counter()
        if self.hooks:
            self.steps.append(now - self._began)
        self._began = now
        self.hooks.append(0.0)


def timed(hook: str) -> Any:
    plain = getattr(KlarmCallback, hook)

    def call(self: TimedCallback, *args: Any, **kwargs: Any) -> None:
        start = perf_counter()
        plain(self, *args, **kwargs)
        if self.hooks:
            self.hooks[-1] += perf_counter() - start

    return call


for _hook in HOOKS:
    setattr(TimedCallback, _hook, timed(_hook))


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    machine = {
        "klarm": version("klarm"),
        "trl": version("trl"),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }
    with tempfile.TemporaryDirectory(dir=RESULTS) as scratch:
        os.chdir(scratch)  # not in the checkout, where a klarm.yaml would be used
        reference = tiny_trl.make_reference(Path(scratch) / "reference")
        callback = TimedCallback(run="share", on_critical="stop", console=False)
        tiny_trl.make_trainer(reference, Path(scratch) / "run", STEPS, [callback]).train()
    hooks, steps = callback.hooks[WARM_STEPS:-1], callback.steps[WARM_STEPS:]
    share = 100 * sum(hooks) / sum(steps)
    rows = [
        Row("a step of a tiny TRL run, p50", "ms", 1e3 * median(steps)),
        Row("klarm's hooks in it, p50", "µs", 1e6 * median(hooks)),
        Row("klarm's share of all steps", "%", share, target="≤ 1 %", met=share <= 1),
    ]
    write(rows, machine, RESULTS / "framework_share.json")
    show(rows, machine)


if __name__ == "__main__":
    main()
