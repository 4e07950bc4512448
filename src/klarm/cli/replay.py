"""`klarm replay`: what klarm would have said about a recorded run."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import click

from klarm.analysis.replay import Replay
from klarm.analysis.replay import replay as run_replay
from klarm.config import Config, load
from klarm.console import COLOURS, counted, event_line
from klarm.journal import encode
from klarm.sources import SourceError, read_log
from klarm.types import SEVERITIES, Alert, Event, Severity

_Item = TypeVar("_Item")
_PROGRESS_EVERY = 20_000


@click.command()
@click.argument("log", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Read settings from this file.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="SECTION.NAME=VALUE",
    help="Change one setting, as in kl_explosion.baseline_mode=frozen. May be repeated.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people or for programs.",
)
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    help="Exit with 1 if there is an alert of this severity or worse.",
)
def replay(
    log: Path,
    config_file: Path | None,
    settings: tuple[str, ...],
    output: str,
    fail_on: Severity | None,
) -> None:
    """Run the monitor over a recorded LOG and print its alerts.

    LOG is a CSV or JSON Lines file, a TensorBoard event file or folder, trainer_state.json, JSON
    keyed by step, what a trainer printed, a journal or the folder of a run. A journal is replayed
    with the settings it was recorded with, unless --config or --set say otherwise. Exit code 0 if
    it could be watched (see --fail-on), 2 if not.
    """
    changes = _parse(settings)

    def configure(recorded: Mapping[str, object] | None) -> Config:
        recorded = recorded if config_file is None else None
        return load(config_file, changes, overrides_from="--set", recorded=recorded)

    configure(None)  # a mistake in the settings is said before the log is read
    found = run_replay(_with_progress(read_log(log, _say)), configure)
    if output == "json":
        _print_json(found)
    else:
        _print_text(found)
    if not found.watched:
        names = ", ".join(sorted(found.names)) or "no numbers"
        raise SourceError(f"nothing in {log} could be watched; it holds {names}")
    if fail_on is not None:
        failing = SEVERITIES[SEVERITIES.index(fail_on) :]
        sys.exit(any(alert.severity in failing for alert in found.alerts))


def _parse(settings: Iterable[str]) -> dict[str, dict[str, object]]:
    changes: dict[str, dict[str, object]] = {}
    for setting in settings:
        place, equals, value = setting.partition("=")
        section, dot, name = place.partition(".")
        if not (equals and dot):
            raise click.UsageError(f"--set takes SECTION.NAME=VALUE, got {setting!r}")
        changes.setdefault(section, {})[name] = value
    return changes


def _print_text(found: Replay) -> None:
    for alert in found.alerts:
        severity = click.style(f"{alert.severity:<8}", fg=COLOURS[alert.severity])
        click.echo(f"step {alert.step:>5}  {severity}  {alert.detector}: {alert.message}")
    for event in found.events:
        click.echo(event_line(event))
    counts = Counter(alert.severity for alert in found.alerts)
    click.echo(
        f"{counted(found.steps, 'step')} replayed: {counted(counts['warning'], 'warning')}, "
        f"{counted(counts['critical'], 'critical alert')} ({found.binding})."
    )
    # What became an incident matters more than a lone alert.
    opened: list[Event | Alert] = [event for event in found.events if event.event == "opened"]
    candidates = opened or list[Event | Alert](found.alerts)
    if candidates:
        worst = max(candidates, key=lambda found: SEVERITIES.index(found.severity))
        click.echo(f"-> At step {worst.step}: {worst.recommendation}")


def _print_json(found: Replay) -> None:
    document = {
        "steps": found.steps,
        "watched": found.watched,
        "idle": found.idle,
        "alerts": [json.loads(encode(alert)) for alert in found.alerts],
        "events": [json.loads(encode(event)) for event in found.events],
    }
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def _with_progress(rows: Iterable[_Item]) -> Iterator[_Item]:
    """Pass the rows on, counting them in the terminal when there are many."""
    counting = sys.stderr.isatty()
    for number, row in enumerate(rows):
        if counting and number % _PROGRESS_EVERY == 0 and number:
            click.echo(f"\r{number:,} rows ...", nl=False, err=True)
        yield row
    if counting:
        click.echo("\r\x1b[K", nl=False, err=True)


def _say(message: str) -> None:
    click.echo(f"klarm: {message}", err=True)
