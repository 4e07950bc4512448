"""Draws the curve of an incident as a picture, if matplotlib (`klarm[report]`) is installed."""

from __future__ import annotations

import io
import math

from klarm.channels.message import Message
from klarm.channels.text import one_line
from klarm.stats import median

FILE_NAME = "curve.png"
_COLOURS = {"warning": "#d98e04", "critical": "#c62828"}
_MIN_VALUES = 3
_MAX_NAME = 80
_LOG_SCALE_RATIO = 30.0  # if the peak exceeds the median this much, a linear scale hides the rest


def curve_png(message: Message) -> bytes | None:
    """Return the last values of the metric as a PNG; None if it cannot be drawn.

    The picture is optional: no failure here may prevent the message from being sent.
    """
    points = [(step, value) for step, value in message.curve if math.isfinite(value)]
    if len(points) < _MIN_VALUES:
        return None
    try:
        return _draw(message, points)
    except Exception:  # noqa: BLE001  # not installed, half installed, no fonts, no memory ...
        return None


def _draw(message: Message, points: list[tuple[int, float]]) -> bytes:
    # pyplot is avoided, because it has global state and is not thread-safe.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 2.8), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    colour = _COLOURS[message.severity]
    steps, values = zip(*points, strict=True)
    axes.plot(steps, values, color="#37474f", linewidth=1.4)
    last = points[-1][0]
    if points[0][0] <= message.started <= last and message.event != "resolved":
        axes.axvspan(message.started, last, color=colour, alpha=0.10, linewidth=0)
        axes.axvline(message.started, color=colour, linewidth=1.0)
        axes.annotate(
            f"step {message.started}",
            (message.started, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(-4, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            color=colour,
            fontsize=8,
        )
    for step, value in message.curve:
        if not math.isfinite(value):
            axes.axvline(step, color=colour, linewidth=0.8, linestyle=":")
    if min(values) > 0 and max(values) > _LOG_SCALE_RATIO * median(values):
        axes.set_yscale("log")
    axes.set_xlabel("step", fontsize=8)
    # A dollar sign would begin a formula, and the font does not have every letter.
    title = f"{message.metric}, {one_line(message.run, _MAX_NAME)}".replace("$", r"\$")
    known = title.encode("latin-1", "replace").decode("latin-1")
    axes.set_title(known, loc="left", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()
