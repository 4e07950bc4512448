"""What the console says during small runs, from their first line to their last."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from math import nan
from typing import Any

import klarm
from watched_runs import odd_runs, row_at

Row = tuple[int, Mapping[str, Any]]


def console_lines() -> str:
    """Return the lines of every run."""
    return "\n\n".join(f"# {name}\n{said(run)}" for name, run in RUNS.items())


def said(run: Callable[[], None]) -> str:
    """Return what stderr gets of a run that is recorded in a new folder."""
    lines = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(lines):
        klarm.init("a", dir=folder, deliver="elsewhere")
        try:
            run()
        finally:
            klarm.finish()
    text = lines.getvalue().replace(folder, "klarm_runs")
    return re.sub(r" +\n", "\n", text).rstrip()


def logged(rows: Iterable[Row]) -> Callable[[], None]:
    """Return a run that logs these rows."""

    def run() -> None:
        for step, metrics in rows:
            klarm.log(metrics, step)

    return run


def healthy(count: int, **more: float) -> list[Row]:
    """Return rows of a healthy run, with further metrics."""
    return [(step, {**row_at(step), **more}) for step in range(count)]


def crashes() -> None:
    """Raise the exception that ends a training."""
    logged(healthy(30))()
    with contextlib.suppress(RuntimeError), klarm.init("b", deliver="elsewhere"):
        logged(healthy(30))()
        raise RuntimeError("CUDA error") from ValueError("device is lost")


RUNS: dict[str, Callable[[], None]] = {
    "healthy": logged(healthy(60)),
    "nothing is known": logged([(1, {f"my/{letter}": 1.0 for letter in "abcdefghijkl"})] * 3),
    "nothing is a number": logged([(1, {"note": "text"})]),
    "only kl": logged((step, {"kl": row["kl"]}) for step, row in healthy(30)),
    "four metrics are not logged": logged(
        healthy(30, reward_std=0.2, advantage_std=0.5, learning_rate=1e-6)
    ),
    "five metrics are not logged": logged(healthy(30, reward_std=0.2, advantage_std=0.5)),
    "kl is not measured": logged(healthy(40, kl=0.0)),
    "kl is a sum": logged(
        (step, {"objective/kl": 10 * row["kl"], "loss": row["loss"]}) for step, row in healthy(40)
    ),
    "entropy can be negative": logged(healthy(60, entropy=-3.0)),
    "a spike": logged([*healthy(40), (40, {**row_at(40), "kl": 5.0}), *healthy(80)[41:]]),
    "one NaN": logged([*healthy(40), (40, {**row_at(40), "loss": nan})]),
    "it crashes": crashes,
    **{name: logged(rows) for name, rows in odd_runs().items()},
}
