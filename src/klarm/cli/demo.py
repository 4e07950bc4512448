"""`klarm demo`: plays a recorded GRPO run through the real monitor."""

from __future__ import annotations

import json
import os
import shlex
import time
from importlib import resources
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace
from rich.text import Text

from klarm.cli.demo_page import play_on_page
from klarm.config import Config, load
from klarm.detectors import CRITICAL_FACTOR, KLExplosionDetector
from klarm.incidents import is_alarm
from klarm.monitor import Monitor
from klarm.terminal import echo, rich_console, wrapped
from klarm.types import RINGING, Event
from klarm.wording import COLOURS, counted, event_panel, event_text, incidents_in_sum, number

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from klarm.cli.curve import Band

# What each recording shows; recordings/tiny_grpo.py makes them.
RECORDINGS = {
    "exploding": "GRPO, until the learning rate jumps ×100 at step 152",
    "drifting": "GRPO drifts away with almost no KL penalty",
    "healthy": "GRPO that learns and settles",
}
_SECONDS = 12.0
_PAUSE_AT_INCIDENT = 2.5
_FAST_FRAMES = 30  # drawn with --fast
_MIN_HEIGHT, _MAX_HEIGHT = 4, 19  # lines of the curve
_BESIDE_CURVE = 6  # lines: title, axis, legend, state, prompt
_MAX_WIDTH, _MIN_WIDTH = 110, 40  # columns
_LOWEST_DRAWN = 1e-4  # the first steps, where the policy equals its reference, are lower
_PLAIN_EVERY = 25

_WHAT_NEXT = """\
What to type next:
  klarm replay {log}
  klarm demo --page  # in a browser; needs klarm[server]
  import klarm; klarm.init("my-run")  # in your training script: before the loop
  klarm.log({{"kl": kl, "reward": reward}}, step=step)  # at every step"""


@click.command()
@click.argument("recording", type=click.Choice(list(RECORDINGS)), default="exploding")
@click.option("--frozen", is_flag=True, help="Use the frozen baseline instead of the rolling one.")
@click.option("--fast", is_flag=True, help="Do not wait between steps.")
@click.option("--page", is_flag=True, help="Show it on a page in a browser, until Ctrl-C.")
def demo(recording: str, *, frozen: bool, fast: bool, page: bool) -> None:
    """Play a recorded GRPO run through the monitor and see what it reports.

    RECORDING is exploding (the default), drifting or healthy: real TRL runs of a tiny model.
    """
    if page:
        if frozen:
            raise click.UsageError(
                "--page takes no --frozen: try settings with What if on the page"
            )
        if fast:
            raise click.UsageError("--page takes no --fast: it shows a run at the pace of training")
        play_on_page(recording, RECORDINGS, read_recording)
        return
    mode = "frozen" if frozen else "rolling"
    config = load(overrides={"kl_explosion": {"baseline_mode": mode, "enabled": True}}, recorded={})
    run = WatchedRecording(recording, config)
    console = rich_console()
    if console.is_terminal and not console.is_dumb_terminal:
        play_live(console, run, fast=fast)
    else:
        play_plain(run, fast=fast or not console.is_terminal)
    echo(wrapped(_summary(run)))
    echo(_WHAT_NEXT.format(log=shlex.quote(_shorter(str(_recorded(recording))))))


class WatchedRecording:
    """A recording, and what a monitor reports of it."""

    def __init__(self, recording: str, config: Config) -> None:
        self.title = RECORDINGS[recording]
        self.rows = read_recording(recording)
        self.kl: list[tuple[int, float]] = [(row["step"], row["kl"]) for row in self.rows]
        self.events: list[Event] = []
        monitor = Monitor("demo", config.detectors(), rules=config.incident_rules())
        monitor.on_event.append(self.events.append)
        for row in self.rows:
            monitor.log(row, row["step"])
        self.incidents = monitor.incidents
        self._detector = next(d for d in monitor.detectors if isinstance(d, KLExplosionDetector))

    def on_kl(self) -> list[Event]:
        """Return the events about KL."""
        return [event for event in self.events if event.signal == self._detector.signal]

    def shown_at(self, step: int) -> list[Event]:
        """Return the events up to a step that are shown with the curve: those about KL, if any."""
        on_kl = [event for event in self.on_kl() if event.step <= step]
        return on_kl or [event for event in self.events if event.step <= step]

    def bands(self) -> list[Band]:
        """Return what kl_explosion has compared KL with: its baseline and its two thresholds."""
        from klarm.cli.curve import Band

        detector = self._detector
        means, spreads = detector.baselines([value for _, value in self.kl])
        warning = means + detector.sigma_multiplier * spreads
        critical = means + CRITICAL_FACTOR * detector.sigma_multiplier * spreads

        def between(low: Any, high: Any, character: str, colour: str) -> Band:
            steps = [step for step, _ in self.kl]
            ranges = list(zip(steps, low.tolist(), high.tolist(), strict=True))
            return Band(ranges[detector.min_values :], character, colour)

        return [
            between(means - spreads, means + spreads, "░", "blue"),
            between(warning, warning, "─", COLOURS["warning"]),
            between(critical, critical, "═", COLOURS["critical"]),
        ]


def play_live(console: Console, run: WatchedRecording, *, fast: bool) -> None:
    """Play a recording in a terminal, as a growing curve."""
    from rich.live import Live

    pause = _SECONDS / len(run.rows)
    every = len(run.rows) // _FAST_FRAMES if fast else 1
    bands = run.bands()
    shown: list[Event] = []
    with Live(console=console, auto_refresh=False) as live:
        for row in run.rows:
            before, shown = shown, run.shown_at(row["step"])
            if row is run.rows[-1] or row["step"] % every == 0:
                live.update(_screen(console, run, row, shown, bands), refresh=True)
            if not fast:
                time.sleep(pause if shown == before else _PAUSE_AT_INCIDENT)


def play_plain(run: WatchedRecording, *, fast: bool) -> None:
    """Print a recording as plain lines, where nothing can be drawn."""
    echo(wrapped(f"klarm demo: {run.title}"))
    on_kl = run.on_kl()
    for row in run.rows:
        for event in run.events:
            if event.step != row["step"]:
                continue
            if event in on_kl:
                echo(wrapped(event_text(event)))
            elif event.event in RINGING:  # of other signals only what people are notified of
                echo(wrapped(event_text(event).splitlines()[0]))
        if row["step"] % _PLAIN_EVERY == 0:
            kl, reward = number(row["kl"], 4), number(row["reward"])
            echo(wrapped(f"step {row['step']:>3}  kl {kl}, reward {reward}"))
        if not fast:
            time.sleep(_SECONDS / len(run.rows))


def _screen(
    console: Console,
    run: WatchedRecording,
    row: dict[str, Any],
    events: list[Event],
    bands: list[Band],
) -> RenderableType:
    """Return the curve up to a row, and below it the latest alarm and what became of it."""
    from rich.console import Group

    from klarm.cli.curve import draw_curve

    below: list[RenderableType] = []
    marked = None
    alarm = next((event for event in reversed(events) if is_alarm(event)), None)
    if alarm is not None:
        below.append(event_panel(_in_short(alarm)))
        if events[-1] is not alarm:
            below.append(Text(event_text(events[-1])))
        marked = (alarm.started, row["step"], COLOURS[alarm.severity])
    width = min(max(console.width, _MIN_WIDTH), _MAX_WIDTH)
    taken = _BESIDE_CURVE + sum(len(console.render_lines(part)) for part in below)
    height = min(max(console.height - taken, _MIN_HEIGHT), _MAX_HEIGHT)
    points = [(step, max(kl, _LOWEST_DRAWN)) for step, kl in run.kl]
    curve = draw_curve(points, (width, height), marked=marked, behind=bands, until=row["step"])
    title = Text.assemble(("klarm demo", "bold"), f"  {run.title}")
    legend = Text.assemble(
        ("        ● KL", "bright_cyan"),
        ("   ░ baseline ± 1σ", "blue"),
        "   kl_explosion: ",
        ("─ warning", COLOURS["warning"]),
        ("   ═ critical", COLOURS["critical"]),
    )
    state = Text(
        f"        step {row['step']:>3}   kl {row['kl']:.4f}   reward {row['reward']:.3f}   "
        f"learning rate {row['learning_rate']:.0e}"
    )
    return Group(title, curve, legend, state, *below)


def _in_short(event: Event) -> Event:
    """Return a short version of an alarm: what happened, and the first thing to do."""
    recommendation = "" if event.remedy else event.recommendation
    return replace(event, also=(), checkpoint="", recommendation=recommendation)


def _summary(run: WatchedRecording) -> str:
    """Return what was caught at which step, with the values of the recording."""
    total = f"{counted(len(run.rows), 'step')}, {incidents_in_sum(run.incidents)}"
    on_kl = run.on_kl()
    if not on_kl:
        return f"{total} No incident on KL." if run.incidents else total
    first, last = on_kl[0], on_kl[-1]
    before = max(value for step, value in run.kl if step < first.started)
    opened = (
        f"{total}\nIncident {first.incident} opened at step {first.step}, at KL "
        f"{number(dict(run.kl)[first.step])} (highest before step {first.started}: "
        f"{number(before)})."
    )
    if last.event == "settled":
        later = [value for step, value in run.kl if step > last.step]
        value, at = max((value, step) for step, value in run.kl if step > last.step)
        return (
            f"{opened} Still open: after step {last.step}, median KL {number(median(later), 2)}, "
            f"with spikes up to {number(value)} (step {at}). Each is too short for a new report."
        )
    value, at = max((value, step) for step, value in run.kl if step >= first.step)
    return f"{opened} KL reached {number(value)} at step {at}."


def read_recording(name: str) -> list[dict[str, Any]]:
    """Return the rows of a recording that is part of klarm."""
    return [json.loads(line) for line in _recorded(name).read_text().splitlines()]


def _recorded(name: str) -> Path:
    return Path(str(resources.files("klarm"))) / "recordings" / f"{name}.jsonl"


def _shorter(path: str) -> str:
    """Return a path relative to the working directory, if that is shorter."""
    return min(path, os.path.relpath(path), key=len)
