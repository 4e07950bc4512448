"""The picture of docs/probe.md: the trainer's KL and the probe's, a panel per run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib import pyplot as plt

_TRAINERS, _PROBES = "#E69F00", "#0072B2"  # distinguishable with any colour vision (Okabe and Ito)
_COLUMNS = 3


class Panel(NamedTuple):
    """One run: both curves at the same steps, where the learning rate jumps, how ranks agree."""

    setting: str
    seed: int
    trainer: Sequence[float]
    probe: Sequence[float]
    jump: int | None
    over_rise: float
    over_run: float


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Write the picture."""
    mpl.use("Agg")
    height = -(-len(panels) // _COLUMNS)
    figure, grid = plt.subplots(
        height, _COLUMNS, figsize=(3.9 * _COLUMNS, 2.0 * height + 0.6), layout="constrained",
        sharex=True, sharey=True, squeeze=False,
    )  # fmt: skip
    for axes, panel in zip(grid.flat, panels, strict=False):
        steps = range(1, len(panel.trainer) + 1)
        trainer, probe = _positive(panel.trainer), _positive(panel.probe)
        axes.plot(steps, trainer, color=_TRAINERS, linewidth=1.0, label="trainer's KL")
        axes.plot(steps, probe, color=_PROBES, linewidth=1.8, label="probe's KL")
        if panel.jump is not None:
            axes.axvline(panel.jump, color="0.4", linestyle=":", label="learning rate raised")
        title = (
            f"{panel.setting}, seed {panel.seed}: "
            f"{panel.over_rise:.3g}, whole run {panel.over_run:.3g}"
        )
        axes.set_title(title, fontsize=10)
        axes.set_yscale("log")
        axes.grid(color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    for axes in list(grid.flat)[len(panels) :]:
        axes.axis("off")
    lines, names = grid.flat[len(panels) - 1].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside upper center", ncols=3, frameon=False)
    figure.supxlabel("step")
    figure.supylabel("nats per token")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _positive(values: Sequence[float]) -> list[float]:
    """Leave out what a logarithmic axis has no place for: the first KL of a trainer is 0."""
    return [value if value > 0.0 else math.nan for value in values]
