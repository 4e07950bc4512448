"""`klarm demo`: a recorded GRPO run played through the real monitor."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from importlib import resources
from typing import TYPE_CHECKING, Any

import click

from klarm.cli.chart import Point, draw
from klarm.config import Config, load
from klarm.console import alert_panel, counted, event_line
from klarm.detectors import KLExplosionDetector
from klarm.journal import MemoryJournal
from klarm.monitor import Monitor
from klarm.types import Alert, Event

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# What each recording shows; recordings/tiny_grpo.py makes them.
RECORDINGS = {
    "exploding": "GRPO, until the learning rate jumps x100 after step 150",
    "drifting": "GRPO with hardly any KL penalty creeps away",
    "healthy": "GRPO that learns and settles",
}
_SECONDS = 12.0
_PAUSE_AT_FIRST_CRITICAL = 2.5
_SMALLEST_KL, _LARGEST_KL = 1e-4, 1e2  # six decades
_HIGHEST, _LOWEST, _BESIDE_CHART = 19, 4, 14  # lines
_WIDEST, _NARROWEST = 110, 40  # columns
_PLAIN_EVERY = 25

_NEXT = """\
What to type next:
  {klarm} demo drifting --frozen
      another run, judged by a baseline that does not follow it
  {klarm} init
      write a klarm.yaml with every setting explained
  {klarm} replay LOG
      ask klarm about a run of yours: CSV, JSON Lines or a journal

In your training script:
  import klarm; klarm.init("my-run")
  klarm.log({{"kl": kl, "reward": reward}}, step=step)"""


@click.command()
@click.argument("recording", type=click.Choice(list(RECORDINGS)), default="exploding")
@click.option("--frozen", is_flag=True, help="Use the frozen baseline in place of the rolling one.")
def demo(recording: str, frozen: bool) -> None:
    """Play a recorded GRPO run through the monitor and watch it alarm.

    RECORDING is exploding (the default), drifting or healthy: real TRL runs of a tiny model.
    """
    from rich.console import Console

    mode = "frozen" if frozen else "rolling"
    config = load(overrides={"kl_explosion": {"baseline_mode": mode, "enabled": True}}, recorded={})
    player = _Player(recording, config)
    console = Console()
    if console.is_terminal:
        player.play_live(console)
    else:
        player.play_plain()
    console.print(player.summary(), highlight=False)
    click.echo()
    click.echo(_NEXT.format(klarm=_command()))


class _Player:
    """Feeds a recording to a monitor, and keeps what there is to show."""

    def __init__(self, recording: str, config: Config) -> None:
        self.recording = recording
        self.rows = read_recording(recording)
        self.points: list[Point] = []
        self.alerts: list[Alert] = []
        self._journal = MemoryJournal()
        monitor = Monitor("demo", config.detectors(), self._journal, rules=config.incident_rules())
        self._monitor = monitor
        self._detector = next(d for d in monitor.detectors if isinstance(d, KLExplosionDetector))
        self._on_kl = {d.name for d in monitor.detectors if d.signal == self._detector.signal}

    def play_live(self, console: Console) -> None:
        """Play it in a terminal, as a curve that grows."""
        from rich.live import Live

        pause = _SECONDS / len(self.rows)
        with Live(console=console, auto_refresh=False, transient=False) as live:
            for row in self.rows:
                first_critical = self._feed(row)
                live.update(self._screen(console.width, console.height, row), refresh=True)
                time.sleep(_PAUSE_AT_FIRST_CRITICAL if first_critical else pause)

    def play_plain(self) -> None:
        """Print it as lines, at once."""
        click.echo(f"klarm demo: {RECORDINGS[self.recording]}")
        for row in self.rows:
            told = len(self.alerts)
            self._feed(row)
            for alert in self.alerts[told:]:
                click.echo(f"step {alert.step:>3}  {alert.severity.upper()}: {alert.message}")
            if row["step"] % _PLAIN_EVERY == 0:
                point = self.points[-1]
                click.echo(
                    f"step {row['step']:>3}  kl {row['kl']:.4g}, reward {row['reward']:.3g}; "
                    f"warning above kl {point.warning_at:.3g}"
                )

    def summary(self) -> str:
        """Say what was caught at which step."""
        critical = [alert for alert in self.alerts if alert.severity == "critical"]
        warnings = len(self.alerts) - len(critical)
        total = (
            f"{counted(len(self.rows), 'step')}, {counted(warnings, 'warning')}, "
            f"{counted(len(critical), 'critical alert')}."
        )
        if not critical:
            return f"{total} Nothing critical in this run."
        first = critical[0]
        before = [point.value for point in self.points[: first.step - 1]]
        ends = max(point.value for point in self.points)
        return (
            f"{total}\nThe first critical alert came at step {first.step}, at KL "
            f"{self.points[first.step - 1].value:.3g} (highest before: {max(before):.3g}); "
            f"KL went on to {ends:.3g}."
            + "".join(f"\n{event_line(event)}" for event in self._first_incident())
        )

    def _first_incident(self) -> list[Event]:
        opened = (r for r in self._journal.records if isinstance(r, Event) and r.signal == "kl")
        return list(opened)[:1]

    def _feed(self, row: dict[str, Any]) -> bool:
        """Log one row; return whether it brought the first critical alert."""
        had_critical = any(alert.severity == "critical" for alert in self.alerts)
        # The curve is KL's, so what is said of other signals has no place on it.
        logged = self._monitor.log(row, step=row["step"])
        alerts = [alert for alert in logged if alert.detector in self._on_kl]
        mean, spread = self._detector.mean, self._detector.spread
        sigma = self._detector.sigma_multiplier
        self.alerts += alerts
        severity = alerts[0].severity if alerts else ""
        limits = (mean + sigma * spread, mean + 1.5 * sigma * spread)
        self.points.append(Point(row["kl"], mean, spread, *limits, severity))
        return severity == "critical" and not had_critical

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
        worst = [a for a in self.alerts if a.severity == "critical"] or self.alerts
        if worst:
            shown.append(alert_panel(worst[0] if worst[0].severity == "critical" else worst[-1]))
        return Group(*shown)


def _command() -> str:
    """Return how this command was called, where plain `klarm` would not be found."""
    return "klarm" if shutil.which("klarm") else os.path.relpath(sys.argv[0])


def read_recording(name: str) -> list[dict[str, Any]]:
    """Return the rows of a recording that comes with klarm."""
    text = (resources.files("klarm") / "recordings" / f"{name}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]
