"""`klarm demo`: plays a recorded GRPO run through the real monitor."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from importlib import resources
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace
from rich.text import Text

from klarm.cli.chart import Point, draw
from klarm.cli.checkout import is_checkout
from klarm.cli.demo_page import play_on_page
from klarm.config import Config, load
from klarm.detectors import CRITICAL_FACTOR, KLExplosionDetector
from klarm.incidents import is_alarm
from klarm.monitor import Monitor
from klarm.terminal import echo, rich_console
from klarm.types import RINGING, Event
from klarm.wording import counted, event_panel, event_text, incidents_in_sum, number

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# What each recording shows; recordings/tiny_grpo.py makes them.
RECORDINGS = {
    "exploding": "GRPO, until the learning rate jumps ×100 at step 152",
    "drifting": "GRPO drifts away with almost no KL penalty",
    "healthy": "GRPO that learns and settles",
}
_SECONDS = 12.0
_PAUSE_AT_INCIDENT = 2.5
_FAST_FRAMES = 30  # drawn with --fast
_MIN_KL, _MAX_KL = 1e-4, 1e2
_DECADES = 7  # labels on the axis: one per power of ten
# Lines of the curve. Decades are 3, 2 or 1 lines apart, so that each has a line of its own, or half
# a line, which leaves every other one without a label.
_HEIGHTS = (19, 13, _DECADES, 4)
_BESIDE_CHART = 6  # lines: title, axis, legend, state, prompt
_MAX_WIDTH, _MIN_WIDTH = 110, 40  # columns
_PLAIN_EVERY = 25

_SPIKES = "KL still spikes since then, but each spike is too short for a new report."

_IN_A_SCRIPT = """\
  import klarm; klarm.init("my-run")  # in your training script: before the loop
  klarm.log({"kl": kl, "reward": reward}, step=step)  # at every step"""


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
    player = _Player(recording, config)
    console = rich_console()
    if console.is_terminal and not console.is_dumb_terminal:
        player.play_live(console, fast=fast)
    else:
        player.play_plain(console, fast=fast or not console.is_terminal)
    _say(console, player.summary())
    echo(_what_next(recording, console.width if console.is_terminal else None))


def _what_next(recording: str, width: int | None) -> str:
    """Return commands to copy, with explanations if the terminal is wide enough."""
    klarm = _command()
    log = shlex.quote(_shorter(str(_recorded(recording))))
    needs = "run make page first" if is_checkout() else "needs klarm[server]"
    offered = {
        f"{klarm} replay {log}": "everything klarm reports; it takes your logs, too",
        f"{klarm} demo --page": f"in a browser; {needs}",
    }
    lines = ["What to type next:"]
    column = max(len(command) for command in offered if " replay " not in command)
    for command, does in offered.items():
        line = f"  {command:<{column}}  # {does}"
        lines.append(line if width is None or len(line) <= width else f"  {command}")
    return "\n".join([*lines, _IN_A_SCRIPT])


def _say(console: Console, text: str) -> None:
    """Print text, wrapped between words on a terminal."""
    if not console.is_terminal:
        echo(text)
        return
    for line in text.splitlines():
        console.print(Text(line))


class _Player:
    """Feeds a recording to a monitor, and collects what to show."""

    def __init__(self, recording: str, config: Config) -> None:
        self.recording = recording
        self.rows = read_recording(recording)
        self.points: list[Point] = []
        self.events: list[Event] = []
        monitor = Monitor("demo", config.detectors(), rules=config.incident_rules())
        monitor.on_event.append(self.events.append)
        self._monitor = monitor
        self._detector = next(d for d in monitor.detectors if isinstance(d, KLExplosionDetector))
        self._signal = self._detector.signal
        self._on_kl = {d.name for d in monitor.detectors if d.signal == self._signal}

    def play_live(self, console: Console, *, fast: bool) -> None:
        """Play the recording in a terminal, as a growing curve."""
        from rich.live import Live

        pause = _SECONDS / len(self.rows)
        every = len(self.rows) // _FAST_FRAMES if fast else 1
        with Live(console=console, auto_refresh=False, transient=False) as live:
            for row in self.rows:
                shown = self._shown()
                self._feed(row)
                if row is self.rows[-1] or row["step"] % every == 0:
                    live.update(self._screen(console, row), refresh=True)
                if not fast:
                    time.sleep(_PAUSE_AT_INCIDENT if self._shown() != shown else pause)

    def play_plain(self, console: Console, *, fast: bool) -> None:
        """Print the recording as plain lines, where nothing can be drawn."""
        pause = _SECONDS / len(self.rows)
        _say(console, f"klarm demo: {RECORDINGS[self.recording]}")
        for row in self.rows:
            shown = len(self.events)
            self._feed(row)
            for event in self.events[shown:]:
                lines = event_text(event).splitlines()
                if event.signal == self._signal:
                    _say(console, "\n".join(lines))
                elif event.event in RINGING:  # of other signals only what people are notified of
                    _say(console, lines[0])
            if row["step"] % _PLAIN_EVERY == 0:
                _say(
                    console,
                    f"step {row['step']:>3}  kl {number(row['kl'], 4)}, reward "
                    f"{number(row['reward'])}",
                )
            if not fast:
                time.sleep(pause)

    def summary(self) -> str:
        """Return what was caught at which step, with the values of the recording."""
        incidents = incidents_in_sum(self._monitor.incidents)
        total = f"{counted(len(self.rows), 'step')}, {incidents}"
        on_kl = self._events_on_kl()
        if not on_kl:
            return f"{total} No incident on KL." if self._monitor.incidents else total
        first = on_kl[0]
        kl = {row["step"]: row["kl"] for row in self.rows}
        before = [value for step, value in kl.items() if step < first.started]
        highest = f" (highest before step {first.started}: {number(max(before))})" if before else ""
        opened_at = f"step {first.step}, at KL {number(kl[first.step])}{highest}"
        opened = f"{total}\nIncident {first.incident} opened at {opened_at}."
        if spikes := self._spikes_since_settled():
            value, at = max(spikes)
            level = median(value for step, value in kl.items() if step > on_kl[-1].step)
            return (
                f"{opened} Still open: after step {on_kl[-1].step}, median KL {number(level, 2)}, "
                f"with spikes up to {number(value)} (step {at})."
            )
        value, at = max((value, step) for step, value in kl.items() if step >= first.step)
        return f"{opened} KL reached {number(value)} at step {at}."

    def _spikes_since_settled(self) -> list[tuple[float, int]]:
        """Return the KLs with an alert, and their steps, since the incident on KL has settled."""
        events = self._events_on_kl()
        if not events or events[-1].event != "settled":
            return []
        return [
            (point.value, row["step"])
            for row, point in zip(self.rows, self.points, strict=False)
            if row["step"] > events[-1].step and point.severity
        ]

    def _shown(self) -> list[Event]:
        """Return the events that the part below the curve is about."""
        return self._events_on_kl() or [*self.events]

    def _events_on_kl(self) -> list[Event]:
        return [event for event in self.events if event.signal == self._signal]

    def _feed(self, row: dict[str, Any]) -> None:
        alerts = [
            alert
            for alert in self._monitor.log(row, step=row["step"])
            if alert.detector in self._on_kl
        ]
        mean, spread = self._detector.mean, self._detector.spread
        sigma = self._detector.sigma_multiplier
        severity = alerts[0].severity if alerts else ""
        limits = (mean + sigma * spread, mean + CRITICAL_FACTOR * sigma * spread)
        self.points.append(Point(row["kl"], mean, spread, *limits, severity))

    def _screen(self, console: Console, row: dict[str, Any]) -> RenderableType:
        from rich.console import Group

        title = Text.assemble(("klarm demo", "bold"), f"  {RECORDINGS[self.recording]}")
        below = self._below(console)
        width = min(max(console.width, _MIN_WIDTH), _MAX_WIDTH)
        room = self._room(console, below)
        height = next((height for height in _HEIGHTS if height <= room), _HEIGHTS[-1])
        chart = draw(self.points, len(self.rows), (width, height), (_MIN_KL, _MAX_KL))
        legend = Text.assemble(
            ("        ● KL", "bright_cyan"),
            ("   ░ baseline ± 1σ", "blue"),
            ("   kl_explosion: ", ""),
            ("─ warning", "yellow"),
            ("   ═ critical", "red"),
        )
        state = Text(
            f"        step {row['step']:>3}   kl {row['kl']:.4f}   reward {row['reward']:.3f}   "
            f"learning rate {row['learning_rate']:.0e}"
        )
        return Group(title, chart, legend, state, *below)

    def _room(self, console: Console, below: list[RenderableType]) -> int:
        """Return the number of rows that are left for the curve."""
        taken = sum(len(console.render_lines(part)) for part in below)
        return console.height - _BESIDE_CHART - taken

    def _below(self, console: Console) -> list[RenderableType]:
        """Return the part below the curve: the latest alarm and its outcome.

        The curve shows KL, so events of other signals are left out if there is no room, and so are
        details.
        """
        events = self._shown()
        alarms = [event for event in events if is_alarm(event)]
        if not alarms:
            return []
        later = [Text(event_text(events[-1]))] if events[-1] is not alarms[-1] else []
        is_over = len(self.points) == len(self.rows)  # the summary is about the spikes, too
        if self._spikes_since_settled() and not is_over:
            later.append(Text(_SPIKES))
        whole: list[RenderableType] = [event_panel(alarms[-1]), *later]
        if self._room(console, whole) >= _DECADES:
            return whole
        return [event_panel(_in_short(alarms[-1])), *later]


def _in_short(event: Event) -> Event:
    """Return a short version of an alarm: what happened, and the first thing to do."""
    recommendation = "" if event.remedy else event.recommendation
    return replace(event, also=(), checkpoint="", recommendation=recommendation)


def _command() -> str:
    """Return the command that the user must type: `klarm`, unless it is not on the PATH."""
    if shutil.which("klarm"):
        return "klarm"
    called = Path(sys.argv[0])
    return "python -m klarm" if called.name == "__main__.py" else os.path.relpath(called)


def read_recording(name: str) -> list[dict[str, Any]]:
    """Return the rows of a recording that is part of klarm."""
    return [json.loads(line) for line in _recorded(name).read_text().splitlines()]


def _recorded(name: str) -> Path:
    return Path(str(resources.files("klarm"))) / "recordings" / f"{name}.jsonl"


def _shorter(path: str) -> str:
    """Return a path relative to the working directory, if that is shorter."""
    return min(path, os.path.relpath(path), key=len)
