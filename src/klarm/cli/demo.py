"""`klarm demo`: a recorded GRPO run played through the real monitor."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from klarm.cli.chart import Point, draw
from klarm.cli.demo_page import play_on_page
from klarm.config import Config, load
from klarm.detectors import KLExplosionDetector
from klarm.incidents import counted, event_panel, event_text, incidents_in_sum, is_alarm
from klarm.monitor import Monitor
from klarm.terminal import echo, rich_console
from klarm.types import Event

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# What each recording shows; recordings/tiny_grpo.py makes them.
RECORDINGS = {
    "exploding": "GRPO, until the learning rate jumps ×100 after step 150",
    "drifting": "GRPO with hardly any KL penalty creeps away",
    "healthy": "GRPO that learns and settles",
}
_SECONDS = 12.0
_PAUSE_AT_INCIDENT = 2.5
_SMALLEST_KL, _LARGEST_KL = 1e-4, 1e2  # six decades
_HIGHEST, _LOWEST, _BESIDE_CHART = 19, 4, 20  # lines
_WIDEST, _NARROWEST = 110, 40  # columns
_PLAIN_EVERY = 25

# Which recording to watch after which, and how.
_AFTER = {"exploding": "drifting --frozen", "drifting": "healthy", "healthy": "exploding"}

_NEXT = """\
What to type next:
  {klarm} replay {log}
      all that klarm says of this recording; of a log of yours, too
  {klarm} demo {another}
      {about}
  {klarm} demo --page
      the same on a page, played live; it needs klarm[server], and in a checkout `make page`
  {klarm} init
      write a klarm.yaml with every setting explained

In your training script:
  import klarm; klarm.init("my-run")
  klarm.log({{"kl": kl, "reward": reward}}, step=step)"""


@click.command()
@click.argument("recording", type=click.Choice(list(RECORDINGS)), default="exploding")
@click.option("--frozen", is_flag=True, help="Use the frozen baseline in place of the rolling one.")
@click.option("--page", is_flag=True, help="Play it on a page, in a browser, until Ctrl-C.")
def demo(recording: str, *, frozen: bool, page: bool) -> None:
    """Play a recorded GRPO run through the monitor and watch it alarm.

    RECORDING is exploding (the default), drifting or healthy: real TRL runs of a tiny model.
    """
    if page:
        if frozen:
            raise click.UsageError("--page and --frozen: on the page, What if tries settings")
        play_on_page(recording, RECORDINGS, read_recording)
        return
    mode = "frozen" if frozen else "rolling"
    config = load(overrides={"kl_explosion": {"baseline_mode": mode, "enabled": True}}, recorded={})
    player = _Player(recording, config)
    console = rich_console()
    if console.is_terminal:
        player.play_live(console)
    else:
        player.play_plain()
    echo(player.summary())
    echo()
    another = _AFTER[recording]
    echo(
        _NEXT.format(
            klarm=_command(),
            log=shlex.quote(_shorter(str(_recorded(recording)))),
            another=another,
            about=RECORDINGS[another.split()[0]],
        )
    )


class _Player:
    """Feeds a recording to a monitor, and keeps what there is to show."""

    def __init__(self, recording: str, config: Config) -> None:
        self.recording = recording
        self.rows = read_recording(recording)
        self.points: list[Point] = []
        self.events: list[Event] = []
        monitor = Monitor("demo", config.detectors(), rules=config.incident_rules())
        monitor.on_event.append(self.events.append)
        self._monitor = monitor
        self._detector = next(d for d in monitor.detectors if isinstance(d, KLExplosionDetector))
        self._on_kl = {d.name for d in monitor.detectors if d.signal == self._detector.signal}

    def play_live(self, console: Console) -> None:
        """Play it in a terminal, as a curve that grows."""
        from rich.live import Live

        pause = _SECONDS / len(self.rows)
        with Live(console=console, auto_refresh=False, transient=False) as live:
            for row in self.rows:
                told = len(self._events_on_kl())
                self._feed(row)
                live.update(self._screen(console.width, console.height, row), refresh=True)
                time.sleep(_PAUSE_AT_INCIDENT if len(self._events_on_kl()) > told else pause)

    def play_plain(self) -> None:
        """Print it as lines, at once."""
        echo(f"klarm demo: {RECORDINGS[self.recording]}")
        for row in self.rows:
            told = len(self.events)
            self._feed(row)
            for event in self.events[told:]:
                lines = event_text(event).splitlines()
                echo("\n".join(lines if event.signal == self._detector.signal else lines[:1]))
            if row["step"] % _PLAIN_EVERY == 0:
                point = self.points[-1]
                echo(
                    f"step {row['step']:>3}  kl {row['kl']:.4g}, reward {row['reward']:.3g}; "
                    f"warning above kl {point.warning_at:.3g}"
                )

    def summary(self) -> str:
        """Say what was caught at which step."""
        told = incidents_in_sum(self._monitor.incidents)
        total = f"{counted(len(self.rows), 'step')}, {told}."
        on_kl = self._events_on_kl()
        if not on_kl:
            return f"{total} No incident on KL."
        opened = on_kl[0].step
        before = max(point.value for point in self.points[: on_kl[0].started - 1])
        return (
            f"{total}\nThe one on KL opened at step {opened}, at KL "
            f"{self.points[opened - 1].value:.3g} (highest before: {before:.3g}); KL went on to "
            f"{max(point.value for point in self.points):.3g}."
        )

    def _events_on_kl(self) -> list[Event]:
        return [event for event in self.events if event.signal == self._detector.signal]

    def _feed(self, row: dict[str, Any]) -> None:
        alerts = [
            alert
            for alert in self._monitor.log(row, step=row["step"])
            if alert.detector in self._on_kl
        ]
        mean, spread = self._detector.mean, self._detector.spread
        sigma = self._detector.sigma_multiplier
        severity = alerts[0].severity if alerts else ""
        limits = (mean + sigma * spread, mean + 1.5 * sigma * spread)
        self.points.append(Point(row["kl"], mean, spread, *limits, severity))

    def _screen(self, width: int, height: int, row: dict[str, Any]) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        title = Text.assemble(("klarm demo", "bold"), f"  {RECORDINGS[self.recording]}")
        size = (
            min(max(width, _NARROWEST), _WIDEST),
            min(max(height - _BESIDE_CHART, _LOWEST), _HIGHEST),
        )
        chart = draw(self.points, len(self.rows), size, (_SMALLEST_KL, _LARGEST_KL))
        legend = Text.assemble(
            ("        ● KL to the reference", "bright_cyan"),
            ("   ░ baseline ± 1σ", "blue"),
            ("   ─ warning", "yellow"),
            ("   ═ critical", "red"),
        )
        state = Text(
            f"        step {row['step']:>3}   kl {row['kl']:.4f}   reward {row['reward']:.3f}   "
            f"learning rate {row['learning_rate']:.0e}"
        )
        shown: list[RenderableType] = [title, chart, legend, state]
        if self.events:
            # The curve is KL's, so what is told of other signals gives way.
            latest = (self._events_on_kl() or self.events)[-1]
            shown.append(event_panel(latest) if is_alarm(latest) else Text(event_text(latest)))
        return Group(*shown)


def _command() -> str:
    """Return how this command was called, where plain `klarm` would not be found."""
    return "klarm" if shutil.which("klarm") else os.path.relpath(sys.argv[0])


def read_recording(name: str) -> list[dict[str, Any]]:
    """Return the rows of a recording that comes with klarm."""
    return [json.loads(line) for line in _recorded(name).read_text().splitlines()]


def _recorded(name: str) -> Path:
    return Path(str(resources.files("klarm"))) / "recordings" / f"{name}.jsonl"


def _shorter(path: str) -> str:
    """Return a path as seen from here, where that is shorter."""
    return min(path, os.path.relpath(path), key=len)
