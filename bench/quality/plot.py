"""The plot of delay against false alarms: one panel per kind of failure, one line per contender."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from quality.contenders import KLARM
from quality.generators import FAILURES
from quality.summary import Summary

# Colours that colour-blind people can distinguish (Okabe and Ito); klarm as a whole is black.
_COLOURS = ("#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#999933", "#882255")
_COLUMNS = 4
# Where a failure that is mostly not found is drawn.
_NEVER = 5_000


def draw(summary: Summary, path: Path) -> None:
    """Write the plot."""
    mpl.use("Agg")
    others = [name for name in summary.names if name != KLARM]
    colours = dict(zip(others, _COLOURS * len(others), strict=False))
    height = -(-(len(FAILURES) + 1) // _COLUMNS)
    figure, panels = plt.subplots(
        height, _COLUMNS, figsize=(4.2 * _COLUMNS, 3.8 * height), layout="constrained"
    )
    cells = list(panels.flat)
    for axes, kind in zip(cells, FAILURES, strict=False):
        for number, name in enumerate(others):  # thinner and thinner: some lie on each other
            width = max(1.2, 4.0 - 0.7 * number)
            colour, curve = colours[name], summary.curve(name, kind)
            axes.plot(*_drawn(curve), color=colour, linewidth=width, label=name)
            point = summary.default_point(name, kind)
            _dot(axes, point, "o", color=colour, markersize=6 + width)
        if kind == "explosion":
            axes.plot(*_drawn(summary.oracle_curve()), ":", color="0.4", label="oracle")
        point = summary.default_point(KLARM, kind)
        _dot(axes, point, "*", color="black", markersize=17, linestyle="none", label=KLARM)
        _dress(axes, kind.replace("_", " "))
    for axes in cells[len(FAILURES) :]:
        axes.axis("off")
    lines, names = cells[0].get_legend_handles_labels()
    cells[len(FAILURES)].legend(lines, names, loc="center left", frameon=False, fontsize=11)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    figure.supxlabel("healthy runs with any alarm")
    figure.supylabel("median delay, rows")
    figure.suptitle(
        "Delay against false alarms: lower and further left is better. "
        "Lines move the threshold, dots are the defaults."
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _dot(axes: Axes, point: tuple[float, float], mark: str, **style: object) -> None:
    axes.plot(*_drawn([point]), mark, zorder=3, markeredgecolor="white", clip_on=False, **style)


def _drawn(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return where points are drawn: below the band at the top, or in it."""
    return [rate for rate, _ in points], [min(delay, _NEVER) for _, delay in points]


def _dress(axes: Axes, title: str) -> None:
    axes.set_title(title)
    axes.set(xscale="log", yscale="log", xlim=(1e-3, 1.15), ylim=(0.8, 1.5 * _NEVER))
    axes.axhspan(_NEVER / 1.5, _NEVER * 1.5, color="0.94", zorder=0)
    axes.set_xticks([1e-3, 1e-2, 1e-1, 1], ["0.1 %", "1 %", "10 %", "100 %"])
    axes.set_yticks([1, 10, 100, 1_000, _NEVER], ["1", "10", "100", "1,000", "< half found"])
    axes.minorticks_off()
    axes.grid(color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
