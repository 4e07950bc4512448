"""`klarm replay`: what klarm would have said about a recorded run."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import click

from klarm.analysis.replay import Replay, ids_in
from klarm.analysis.replay import replay as run_replay
from klarm.cli.options import config_option
from klarm.config import Config, load
from klarm.incidents import COLOURS, counted, event_text, is_alarm
from klarm.journal import encode
from klarm.sources import SourceError, read_log
from klarm.terminal import echo, echo_json, echo_progress, styled
from klarm.types import SEVERITIES, Severity

_Item = TypeVar("_Item")
_PROGRESS_EVERY = 20_000


@click.command()
@click.argument("log", type=click.Path(exists=True, path_type=Path))
@config_option
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
    help="Exit with 1 if there is an incident of this severity or worse.",
)
@click.option("--alerts", is_flag=True, help="List every single alert too.")
def replay(
    log: Path,
    config_file: Path | None,
    settings: tuple[str, ...],
    output: str,
    fail_on: Severity | None,
    *,
    alerts: bool,
) -> None:
    """Run the monitor over a recorded LOG and print its incidents.

    LOG is a CSV or JSON Lines file, a TensorBoard event file or folder, trainer_state.json, JSON
    keyed by step, what a trainer printed, a journal or the folder of a run. A journal is replayed
    with the settings it was recorded with, unless --config or --set say otherwise. Exit code 0 if
    it could be watched (see --fail-on), 2 if not.
    """
    changes = _parse(settings)
    remarked: set[str] = set()

    def configure(recorded: Mapping[str, object] | None) -> Config:
        recorded = recorded if config_file is None else None
        config = load(config_file, changes, overrides_from="--set", recorded=recorded, lenient=True)
        for remark in config.remarks:
            if remark not in remarked:
                _say(remark)
        remarked.update(config.remarks)
        return config

    configure(None)  # a mistake in the settings is said before the log is read
    found = run_replay(_with_progress(read_log(log, _say)), configure, ids_in(log))
    if output == "json":
        _print_json(found)
    else:
        _print_text(found, every_alert=alerts)
    if not found.watched:
        names = ", ".join(sorted(found.names)) or "no numbers"
        raise SourceError(f"nothing in {log} could be watched; it holds {names}")
    if fail_on is not None:
        failing = SEVERITIES[SEVERITIES.index(fail_on) :]
        sys.exit(any(incident.severity in failing for incident in found.incidents))


def _parse(settings: Iterable[str]) -> dict[str, dict[str, object]]:
    changes: dict[str, dict[str, object]] = {}
    for setting in settings:
        place, equals, value = setting.partition("=")
        section, dot, name = place.partition(".")
        if not (equals and dot):
            raise click.UsageError(f"--set takes SECTION.NAME=VALUE, got {setting!r}")
        changes.setdefault(section, {})[name] = value
    return changes


def _print_text(found: Replay, *, every_alert: bool) -> None:
    for event in found.events:
        colour = COLOURS[event.severity] if is_alarm(event) else None
        first, *others = event_text(event).splitlines()
        head = styled(first, fg=colour, bold=colour is not None)
        echo(head, *(f"\n{line}" for line in others))
    for alert in found.alerts if every_alert else ():
        severity = styled(f"{alert.severity:<8}", fg=COLOURS[alert.severity])
        echo(f"step {alert.step:>5}  ", severity, f"  {alert.detector}: {alert.message}")
    echo(f"{_counted_steps(found)}: {_counted_incidents(found)}.")
    echo(f"{_counted_alerts(found, listed=every_alert)}.")
    for line in found.binding:
        echo(line)


def _counted_steps(found: Replay) -> str:
    undone = f" ({found.rolled_back} more were rolled back)" if found.rolled_back else ""
    return f"{counted(found.steps, 'step')} replayed{undone}"


def _counted_incidents(found: Replay) -> str:
    if not found.incidents:
        return "no incident"
    critical = sum(incident.severity == "critical" for incident in found.incidents)
    still_open = sum(incident.is_open for incident in found.incidents)
    return (
        f"{counted(len(found.incidents), 'incident')}, {critical} critical, "
        f"{still_open} open at the end"
    )


def _counted_alerts(found: Replay, *, listed: bool) -> str:
    if not found.alerts:
        return "No single alerts"
    counts = Counter(alert.severity for alert in found.alerts)
    hint = "" if listed else " (--alerts lists them)"
    warnings = counted(counts["warning"], "warning")
    return f"Single alerts: {warnings}, {counts['critical']} critical{hint}"


def _print_json(found: Replay) -> None:
    document = {
        "steps": found.steps,
        "rolled_back": found.rolled_back,
        "watched": found.watched,
        "idle": found.idle,
        "alerts": [json.loads(encode(alert)) for alert in found.alerts],
        "events": [json.loads(encode(event)) for event in found.events],
        "incidents": [incident.as_dict() for incident in found.incidents],
    }
    echo_json(document)


def _with_progress(rows: Iterable[_Item]) -> Iterator[_Item]:
    """Pass the rows on, counting them in the terminal when there are many."""
    for number, row in enumerate(rows):
        if number % _PROGRESS_EVERY == 0 and number:
            echo_progress(f"{number:,} rows ...")
        yield row
    echo_progress()


def _say(message: str) -> None:
    echo(f"klarm: {message}", err=True)
