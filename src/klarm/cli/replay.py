"""`klarm replay`: runs the monitor over a recorded run."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import click

from klarm.analysis.replay import Replay, ids_in
from klarm.analysis.replay import replay as run_replay
from klarm.cli.log_columns import CountedRows, check_mapped_columns, name_of
from klarm.cli.options import (
    config_option,
    fail_on_option,
    format_option,
    is_failure,
    map_option,
    overrides_of,
    set_option,
    step_option,
)
from klarm.cli.progress import Progress, size_of
from klarm.config import Config, load
from klarm.incidents import is_alarm
from klarm.journal import encode
from klarm.metrics import SECTION
from klarm.monitor import without_kl
from klarm.sources import SourceError, plain_log, read_log
from klarm.terminal import echo, echo_json, styled, wrapped
from klarm.types import Severity
from klarm.wording import COLOURS, counted, event_text

_FEW_STEPS = 30  # most detectors learn from the first 20 values


@click.command()
@click.argument("log", type=click.Path(exists=True, allow_dash=True, path_type=Path))
@config_option
@set_option
@map_option
@step_option
@format_option("text")
@fail_on_option("was found")
@click.option("--alerts", is_flag=True, help="Also list every alert.")
def replay(
    *,
    log: Path,
    config_file: Path | None,
    settings: tuple[str, ...],
    mapped: tuple[str, ...],
    step_column: str,
    form: str,
    fail_on: Severity | None,
    alerts: bool,
) -> None:
    """Run the monitor over a recorded LOG and print its incidents.

    LOG is a CSV, TSV or JSON Lines file, a TensorBoard event file or folder, trainer_state.json,
    JSON keyed by step, the output of a trainer, a journal or the folder of a run; it may be
    compressed with gzip. - is stdin. A journal is replayed with the settings of its run, unless
    --config or --set change them. The exit code is 0 (but see --fail-on), or 2 if nothing in the
    log could be watched.
    """
    changes = overrides_of(settings, mapped, step_column)
    remarked: set[str] = set()

    def configure(recorded: Mapping[str, object] | None) -> Config:
        recorded = recorded if config_file is None else None
        config = load(config_file, changes, overrides_from="--set", recorded=recorded, lenient=True)
        for remark in config.remarks:
            if remark not in remarked:
                _say(remark)
        remarked.update(config.remarks)
        return config

    # Invalid settings are reported before the log is read.
    step_column = configure(None).step_column
    with plain_log(log, _say) as plain:
        progress = Progress(size_of(plain.path))
        rows = read_log(plain.path, plain.say, step_column, progress.on_bytes)
        rows = CountedRows(log, step_column, _say).checked(progress.over(rows), are_all=True)
        found = run_replay(rows, configure, ids_in(plain.path))
    if mapped:
        check_mapped_columns(changes[SECTION], log, found=found.keys, names=found.names)
    if form == "json":
        _print_json(found)
    elif not found.unknown:
        _print_text(found, every_alert=alerts)
    if found.unknown:
        raise SourceError(f"nothing in {name_of(log)} could be watched; {found.unknown}")
    if is_failure(found.incidents, fail_on):
        sys.exit(1)


def _print_text(found: Replay, *, every_alert: bool) -> None:
    for event in found.events:
        colour = COLOURS[event.severity] if is_alarm(event) else None
        first, *others = event_text(event).splitlines()
        echo(styled(wrapped(first), fg=colour, bold=colour is not None))
        for line in others:
            echo(wrapped(line))
    for alert in found.alerts if every_alert else ():
        severity = styled(f"{alert.severity:<8}", fg=COLOURS[alert.severity])
        echo(f"step {alert.step:>5}  ", severity, f"  {alert.detector}: {alert.message}")
    echo(wrapped(f"{_counted_rows(found)}: {_counted_incidents(found)}."))
    echo(wrapped(_counted_alerts(found, listed=every_alert)))
    for line in found.binding:
        echo(wrapped(line))


def _counted_rows(found: Replay) -> str:
    undone = f" ({found.rolled_back} more were rolled back)" if found.rolled_back else ""
    return f"{counted(found.steps, 'row')} replayed{undone}"


def _counted_incidents(found: Replay) -> str:
    if not found.incidents:
        return f"no incident{_caveat(found)}"
    critical = sum(incident.severity == "critical" for incident in found.incidents)
    still_open = sum(incident.is_open for incident in found.incidents)
    return (
        f"{counted(len(found.incidents), 'incident')}, {critical} critical, "
        f"{still_open} open at the end"
    )


def _caveat(found: Replay) -> str:
    """Return why "no incident" may say little about this log; empty if it says what it should."""
    if found.steps < _FEW_STEPS:
        return (
            "; most detectors need more rows than these "
            '(docs/without-kl.md: "How few rows are too few")'
        )
    return without_kl(found.keys)


def _counted_alerts(found: Replay, *, listed: bool) -> str:
    if not found.alerts:
        return "No alerts."
    counts = Counter(alert.severity for alert in found.alerts)
    hint = "" if listed else " (--alerts lists them)"
    warnings = counted(counts["warning"], "warning")
    said = f"Alerts: {warnings}, {counts['critical']} critical{hint}"
    if not found.unconfirmed:
        return f"{said}."
    return "\n  ".join([f"{said}. They opened no incident:", *found.unconfirmed])


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


def _say(message: str) -> None:
    echo(wrapped(f"klarm: {message}", err=True), err=True)
