"""Contact sheets: every run that was judged wrongly, a small panel each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from numpy.typing import NDArray

from quality import real_runs
from quality.contenders import KLARM
from quality.generators import FAILURES, HEALTHY, generate
from quality.scoring import delay
from quality.summary import Result

MAX_PANELS = 48
_COLUMNS = 4
_KL, _INCIDENT, _ONSET = "#0072B2", "#D55E00", "0.35"


@dataclass(frozen=True)
class Panel:
    """One run that was judged wrongly."""

    title: str
    kl: NDArray[np.float64]
    open_rows: NDArray[np.intp]  # rows with an open incident, or at which people were notified
    onset: int | None


def write_generated(results: Sequence[Result], folder: Path) -> list[Path]:
    """Write the sheets of generated runs: of false alarms, and of misses by kind of failure."""
    panels = {HEALTHY: [_generated(r) for r in results if _is_false_alarm(r)]}
    for kind in FAILURES:
        panels[kind] = [_generated(r) for r in results if r.kind == kind and _is_missed(r)]
    written = []
    for kind, wrong in panels.items():
        name = "false_alarms" if kind == HEALTHY else f"missed_{kind}"
        title = "Healthy runs with an incident" if kind == HEALTHY else f"Missed: {kind}"
        written += _draw(wrong, f"{title}, generated", folder / f"sheet_{name}.png")
    return written


def write_recorded(
    verdicts: Sequence[real_runs.Verdict], files: Sequence[Path], folder: Path
) -> list[Path]:
    """Write the sheets of recorded runs. Those of repositories left out are never drawn."""
    known = {file.stem: file for file in files}
    seen = [verdict for verdict in verdicts if not real_runs.is_left_out(verdict.repository)]
    disturbed = [v for v in seen if v.wanted == "no" and v.told_at_all()]
    missed = [v for v in seen if v.wanted == "yes" and not v.told_in_time()]
    written = []
    for wrong, title, name in (
        (disturbed, "No alarm wanted, notified: recorded runs to tune on", "recorded_false_alarms"),
        (missed, "Not notified in time: recorded runs to tune on", "recorded_missed"),
    ):
        panels = [_recorded(verdict, known[verdict.slug]) for verdict in wrong]
        written += _draw(panels, title, folder / f"sheet_{name}.png")
    return written


def write_examples(results: Sequence[Result], folder: Path, count: int = 8) -> list[Path]:
    """Write the two small pictures of the docs: the first false alarms, and the first misses."""
    false = [_generated(r) for r in results if _is_false_alarm(r)]
    missed = [_generated(r) for r in results if r.kind == "drift" and _is_missed(r)]
    return [
        *_draw(false[:count], "", folder / "quality-false-alarms.png", dpi=60),
        *_draw(missed[:count], "", folder / "quality-missed-drift.png", dpi=60),
    ]


def _is_false_alarm(result: Result) -> bool:
    return result.kind == HEALTHY and bool(result.watched[KLARM].alarm.any())


def _is_missed(result: Result) -> bool:
    return np.isinf(delay(result.watched[KLARM].alarm, result.onset or 0))


def _generated(result: Result) -> Panel:
    alarm = np.flatnonzero(result.watched[KLARM].alarm)
    said = f", incident at row {alarm[0]:,}" if len(alarm) else ""
    title = f"{result.family.replace('_', ' ')}, seed {result.seed}{said}"
    return Panel(title, generate(result.kind, result.seed).kl, alarm, result.onset)


def _recorded(verdict: real_runs.Verdict, file: Path) -> Panel:
    said = ", ".join(
        f"{notification.detector} {notification.row}" for notification in verdict.notifications[:2]
    )
    rows = np.array([notification.row for notification in verdict.notifications], dtype=np.intp)
    title = f"{verdict.slug[:38]}\n{said or 'no incident'}"
    return Panel(title, real_runs.kl_of(file), rows, verdict.onset)


def _draw(panels: Sequence[Panel], title: str, path: Path, dpi: int = 80) -> list[Path]:
    """Write one sheet, if there is anything to show; one of an earlier run goes."""
    path.unlink(missing_ok=True)
    if not panels:
        return []
    mpl.use("Agg")
    shown = panels[:MAX_PANELS]
    height = -(-len(shown) // _COLUMNS)
    figure, cells = plt.subplots(
        height,
        _COLUMNS,
        figsize=(4.2 * _COLUMNS, 2.4 * height + 0.5),
        layout="constrained",
        squeeze=False,
    )
    for axes, panel in zip(cells.flat, shown, strict=False):
        _draw_panel(axes, panel)
    for axes in cells.flat[len(shown) :]:
        axes.axis("off")
    left_off = len(panels) - len(shown)
    if title:
        figure.suptitle(f"{title} ({len(panels)}{f', {left_off} not shown' if left_off else ''})")
    figure.supylabel("|KL|")
    figure.supxlabel("row")
    figure.savefig(path, dpi=dpi)
    plt.close(figure)
    return [path]


def _draw_panel(axes: Axes, panel: Panel) -> None:
    size = np.abs(panel.kl)
    size[(size == 0) | ~np.isfinite(size)] = np.nan  # a logarithm has no place for these
    axes.semilogy(size, color=_KL, linewidth=0.7)
    rows = panel.open_rows[panel.open_rows < len(size)]
    axes.plot(rows, size[rows], ".", color=_INCIDENT, markersize=4)
    if panel.onset is not None:
        axes.axvline(panel.onset, color=_ONSET, linestyle="--", linewidth=1)
    axes.set_title(panel.title, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
