"""Options that several commands have."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from klarm.journal import IncidentRecord
from klarm.metrics import SECTION, STEP, read_user_key
from klarm.settings import ConfigError
from klarm.types import SEVERITIES, Severity

_Command = TypeVar("_Command", bound=Callable[..., Any])

config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Read settings from this file.",
)
run_option = click.option(
    "--run", metavar="RUN", help="Name or folder of the run. [default: the latest]"
)
set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="SECTION.NAME=VALUE",
    help="Change one setting, as in kl_explosion.baseline_mode=frozen. May be repeated.",
)
map_option = click.option(
    "--map",
    "mapped",
    multiple=True,
    metavar="METRIC=COLUMN",
    help="Say which column a metric is read from, as in kl=KL_div. May be repeated.",
)
step_option = click.option(
    "--step-column", metavar="COLUMN", default="", help="Say which column holds the step."
)


def by_option(does: str) -> Callable[[_Command], _Command]:
    """Return the option that says who gives a command."""
    return click.option(
        "--by",
        metavar="NAME",
        callback=lambda _, __, name: name or getpass.getuser(),
        help=f"Who {does} it. [default: the current user]",
    )


def format_option(for_people: str) -> Callable[[_Command], _Command]:
    """Return the option that chooses between a form for people and JSON."""
    return click.option(
        "--format",
        "form",
        type=click.Choice([for_people, "json"]),
        default=for_people,
        show_default=True,
        help="For people or for programs.",
    )


table_or_json_option = format_option("table")


def fail_on_option(which: str) -> Callable[[_Command], _Command]:
    """Return the option for scripts that makes incidents a failure; `is_failure` applies it."""
    return click.option(
        "--fail-on",
        type=click.Choice(SEVERITIES),
        help=f"Exit with 1 if an incident of this severity or worse {which}.",
    )


def is_failure(incidents: Iterable[IncidentRecord], fail_on: Severity | None) -> bool:
    """Return whether there is an incident of a severity or worse; False without a severity."""
    failing = SEVERITIES[SEVERITIES.index(fail_on) :] if fail_on is not None else ()
    return any(incident.severity in failing for incident in incidents)


def overrides_of(
    settings: Iterable[str], mapped: Iterable[str] = (), step_column: str = ""
) -> dict[str, Any]:
    """Return the settings of --set, --map and --step-column in the form of klarm.yaml."""
    changes: dict[str, Any] = {}
    for setting in settings:
        place, equals, value = setting.partition("=")
        section, dot, name = place.partition(".")
        if not equals:
            raise click.UsageError(f"--set takes SECTION.NAME=VALUE, got {setting!r}")
        if dot:
            changes.setdefault(section, {})[name] = value
        else:
            changes[section] = value
    keys = {}
    for mapping in mapped:
        metric, equals, column = mapping.partition("=")
        if not (metric and equals and column):
            raise click.UsageError(f"--map takes METRIC=COLUMN, as in kl=KL_div, got {mapping!r}")
        keys[metric] = column
    for metric, column in keys.items():
        try:
            read_user_key(metric, column)
        except ConfigError as error:
            raise ConfigError(f"--map: {error}") from None
    if step_column:
        keys[STEP] = step_column
    if keys:
        changes[SECTION] = {**changes.get(SECTION, {}), **keys}
    return changes


def complete_run(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of runs that begin with a text, for shell completion."""
    from klarm.cli.runs import runs_in
    from klarm.config import load
    from klarm.settings import ConfigError

    try:
        folders = runs_in(Path(load(lenient=True).dir).expanduser())
    except (ConfigError, OSError):
        return []
    return [folder.name for folder in folders if folder.name.startswith(incomplete)]
