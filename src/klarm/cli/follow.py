"""`klarm follow`: watches a run from outside by following its log."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from klarm.api import start
from klarm.cli.log_columns import CountedRows, check_mapped_columns, name_of
from klarm.cli.options import (
    config_option,
    fail_on_option,
    is_failure,
    map_option,
    overrides_of,
    set_option,
    step_option,
)
from klarm.cli.progress import Progress, size_of
from klarm.cli.stopping import Stopping
from klarm.cli.watch import Watch
from klarm.config import Config, load
from klarm.delivery import Run, is_all_delivered, outgoing
from klarm.incidents import subject_of
from klarm.journal import FILE_NAME, run_folder
from klarm.metrics import SECTION, Binding
from klarm.monitor import unknown_columns, watched, without_kl
from klarm.notices import Notices
from klarm.settings import ConfigError
from klarm.sources import STDIN, SourceError, plain_log
from klarm.sources.document import TRAINER_STATE
from klarm.sources.follow import Follower
from klarm.sources.formats import FOLLOWABLE
from klarm.sources.recorded import Recorded
from klarm.terminal import echo_progress
from klarm.types import Severity

if TYPE_CHECKING:
    from klarm.runs import RunView


@click.command()
@click.argument("log", type=click.Path(allow_dash=True, path_type=Path))
@click.option("--run", help="Name of the run. [default: klarm.yaml's, or the name of the log]")
@config_option
@set_option
@map_option
@step_option
@click.option(
    "--poll",
    "poll_seconds",
    type=click.FloatRange(min=0.01),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look for new rows.",
)
@click.option(
    "--once",
    is_flag=True,
    help="Read what is there, then exit; for cron jobs. Open incidents stay open.",
)
@click.option(
    "--until-idle",
    "idle_seconds",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Exit when nothing was added for this long.",
)
@fail_on_option("is open at the end")
def follow(
    log: Path,
    *,
    run: str | None,
    config_file: Path | None,
    settings: tuple[str, ...],
    mapped: tuple[str, ...],
    step_column: str,
    poll_seconds: float,
    once: bool,
    idle_seconds: float | None,
    fail_on: Severity | None,
) -> None:
    """Watch a run through its LOG, from the beginning and while it grows.

    LOG is a JSON Lines, CSV or TSV file, the output of a trainer, trainer_state.json, or a
    TensorBoard event file or folder; - is stdin. It may not exist yet. If klarm follow is started
    again, it continues where it stopped. Ctrl-C ends it. The exit code is 0, or 1 if something
    could not be delivered, or 2 if the log cannot be followed or holds nothing to watch.
    """
    from klarm.runs import read_run  # it loads numpy

    changes = overrides_of(settings, mapped, step_column)
    if run:
        changes["run"] = run
    source = "--set" if settings else "--run"
    config = load(config_file, changes, overrides_from=source, lenient=True)
    if log == STDIN and not config.run:
        raise click.UsageError("a log on stdin has no name: name the run with --run")
    name = config.run or _name_for(log)
    journal = run_folder(config.dir, name) / FILE_NAME
    if not config.run:
        _refuse_another_log(log, name, journal)
    notices = Notices(stderr=config.console)
    stopping = Stopping()
    shows_progress = config.console and log != STDIN  # which has no size
    with plain_log(log, notices.say, growing=True) as plain:
        show = echo_progress if shows_progress else lambda _: None
        progress = Progress(size_of(plain.path), show=show)
        follower = Follower(
            plain.path,
            journal,
            plain.say,
            lambda: Binding(config.framework, config.metrics),
            waits=not once,
            step_column=config.step_column,
            on_row=progress.on_row,
            on_bytes=progress.on_bytes,
        )

        def say_what_waits() -> None:
            if once or log == STDIN:
                return
            if follower.rows_read:
                notices.say(f"following {log}; {_nothing_new(read_run(journal.parent))}")
            elif not follower.trouble:
                notices.say(f"following {log}; it has no rows yet")

        columns = CountedRows(log, config.step_column, notices.say)
        watch = Watch(
            follower,
            lambda: start(config, name, from_log=True),
            lambda rows: columns.checked(rows, are_all=once),
            say_what_waits,
            progress.end,
            once=once and log != STDIN,
        )
        stopping.on_signals()
        watch.until(
            stopping,
            poll_seconds=0.0 if once else poll_seconds,
            idle_seconds=0.0 if once and log != STDIN else idle_seconds,
            ended=plain.ended,
        )
        if not stopping.is_set():
            mapping = changes[SECTION] if mapped else {}
            _check_what_was_read(watch, log, plain.path, config, mapping)
    recorded = read_run(journal.parent)
    if not watch.any_new and (once or watch.follower.rows_read):
        stopped = f"stopped following {name_of(log)}; " if stopping.is_set() else ""
        notices.say(f"{stopped}{_nothing_new(recorded)}")
    if is_failure(recorded.open_incidents, fail_on) or not _is_delivered(config, recorded):
        sys.exit(1)


def _check_what_was_read(
    watch: Watch, log: Path, path: Path, config: Config, mapping: Mapping[str, str]
) -> None:
    """Raise SourceError if the log lacks rows, a column of --map, or a metric to watch."""
    if not watch.follower.rows_read:
        if not path.exists():
            raise SourceError(f"{path} does not exist")
        held = "event files" if path.is_dir() else "rows"
        raise SourceError(f"{path} holds no {held}: {FOLLOWABLE}")
    bindings = (watch.binding, watch.follower.binding)
    check_mapped_columns(
        mapping,
        log,
        found=[metric for binding in bindings for metric in binding.keys],
        names=[name for binding in bindings for name in binding.names()],
        remark=" (recorded without it: once --map is right, name a new run with --run)",
    )
    detectors = config.detectors()
    if any(d.enabled for d in detectors) and not watched(detectors, watch.binding):
        raise SourceError(
            f"nothing in {name_of(log)} could be watched; {unknown_columns(watch.binding)}"
        )


def _name_for(log: Path) -> str:
    """Return a name for the run of a log: that of its folder or of the file."""
    log = log.absolute()
    if log.name == TRAINER_STATE:  # the same name for every run of the Trainer
        log = log.parent.parent if log.parent.name.startswith("checkpoint-") else log.parent
    name = log.name if log.is_dir() or "tfevents" in log.name else log.stem
    return name.lstrip(".") or "run"


def _refuse_another_log(log: Path, name: str, journal: Path) -> None:
    """Raise SourceError if another log of the same name belongs to the run."""
    recorded = Recorded(journal).path
    if recorded is None or log.absolute() in (recorded, *recorded.parents):
        return
    raise ConfigError(
        f"run {name!r} was recorded from {recorded}, not from {log.absolute()}; name this one with "
        f"--run, or give --run {name} if it is the same run"
    )


def _is_delivered(settings: Config, run: RunView) -> bool:
    """Return whether everything was delivered, if this process delivers."""
    if settings.deliver != "here" or not (routes := outgoing.routes_of(settings)):
        return True
    return is_all_delivered(Run(run.name, run.folder), routes, run.outbox, time.time())


def _nothing_new(run: RunView) -> str:
    """Return a line for when no row is new."""
    last = run.fold.last_step
    since = "" if last is None else f" since step {last}"
    incidents = [
        f"incident {known.number} on {subject_of(known)} is open ({known.severity}, began at "
        f"step {known.last.started})"
        for known in run.open_incidents
    ]
    rest = run.unknown_because or f"no incident is open{without_kl(run.latest)}"
    return "; ".join([f"nothing new{since}", *(incidents or [rest])])
