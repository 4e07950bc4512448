"""`klarm follow`: watch a run from outside, by the log it writes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from klarm.api import init
from klarm.cli.options import config_option
from klarm.cli.stopping import Stopping
from klarm.config import Config, load
from klarm.delivery import Outbox, Run, is_all_delivered, outgoing
from klarm.journal import FILE_NAME, Fold, Source, run_folder
from klarm.metrics import Binding
from klarm.monitor import Monitor
from klarm.notices import Notices
from klarm.settings import ConfigError
from klarm.sources import SourceError
from klarm.sources.document import TRAINER_STATE
from klarm.sources.follow import Follower
from klarm.sources.formats import FOLLOWABLE
from klarm.sources.recorded import Recorded
from klarm.types import Event


@click.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--run", help="Name of the run. [default: klarm.yaml's, or the name of the log]")
@config_option
@click.option(
    "--poll",
    "poll_seconds",
    type=click.FloatRange(min=0.01),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Look for new rows so often.",
)
@click.option("--once", is_flag=True, help="Read what is there and end: for cron.")
@click.option(
    "--until-idle",
    "idle_seconds",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="End when nothing new has come for so long.",
)
@click.option(
    "--fail-on-critical",
    is_flag=True,
    help="Exit with 1 if a critical incident is open at the end.",
)
def follow(
    log: Path,
    *,
    run: str | None,
    config_file: Path | None,
    poll_seconds: float,
    once: bool,
    idle_seconds: float | None,
    fail_on_critical: bool,
) -> None:
    """Watch a run by the LOG it writes, from its beginning and as it grows.

    LOG is a JSON Lines or CSV file, what a trainer prints, trainer_state.json, or a TensorBoard
    event file or folder. It need not be there yet. Started again, it goes on where it was. Ctrl-C
    ends it, with exit code 0; 1 if something could not be delivered, 2 if the log cannot be
    followed.
    """
    settings = load(
        config_file, {"run": run} if run else None, overrides_from="--run", lenient=True
    )
    name = settings.run or _name_for(log)
    journal = run_folder(settings.dir, name) / FILE_NAME
    if not settings.run:
        _refuse_another_log(log, name, journal)
    notices = Notices(stderr=settings.console)
    follower = Follower(
        log,
        journal,
        notices.say,
        lambda: Binding(settings.framework, settings.metrics),
        waits=not once,
    )
    watch = Watch(follower, lambda: init(name, config_file))
    stopping = Stopping()
    stopping.on_signals()
    watch.until(
        stopping,
        poll_seconds=0.0 if once else poll_seconds,
        idle_seconds=0.0 if once else idle_seconds,
    )
    if not watch.follower.rows_read and not stopping.is_set():
        if not log.exists():
            raise SourceError(f"{log} does not exist")
        held = "event files" if log.is_dir() else "rows"
        raise SourceError(f"{log} holds no {held}: {FOLLOWABLE}")
    last, still_open = _standing(journal)
    if once and not watch.any_new:
        notices.say(_nothing_new(last, still_open))
    if fail_on_critical and any(event.severity == "critical" for event in still_open):
        sys.exit(1)
    if not _is_delivered(settings, Run(name, journal.parent)):
        sys.exit(1)


class Watch:
    """Brings the rows of a log to a monitor, which is made when the first new one comes."""

    def __init__(self, follower: Follower, make_monitor: Callable[[], Monitor]) -> None:
        self.follower = follower
        self.any_new = False  # row since the start
        self._make_monitor = make_monitor
        self._monitor: Monitor | None = None

    def until(
        self,
        stopping: Stopping,
        *,
        poll_seconds: float,
        idle_seconds: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Watch until told to stop, or until nothing new has come for so long; then sum up."""
        try:
            since = clock()
            while not stopping.is_set():
                if self.poll(stopping):
                    since = clock()
                elif idle_seconds is not None and clock() - since >= idle_seconds:
                    break
                stopping.wait(poll_seconds)
        finally:
            if self._monitor is not None:
                self._monitor.finish()

    def poll(self, stopping: Stopping) -> bool:
        """Log the rows that are new; return whether there were any."""
        any_new = False
        for row in self.follower.poll():
            any_new = self.any_new = True
            monitor = self._monitor = self._monitor or self._started()
            if isinstance(row, Source):
                monitor._source(row.path, row.kept)
            else:
                monitor.log(row.metrics, row.step)
            if stopping.is_set():
                break
        return any_new

    def _started(self) -> Monitor:
        monitor = self._make_monitor()
        if not monitor.recorded:
            # It would tell everything again whenever it is started.
            monitor.finish()
            raise SourceError(
                f"{self.follower.path} is not followed: run {monitor.run} cannot be recorded"
            )
        return monitor


def _name_for(log: Path) -> str:
    """Return the name of a run whose log has this path: the folder's or the file's."""
    log = log.absolute()
    if log.name == TRAINER_STATE:  # every run of the Trainer calls it so
        log = log.parent.parent if log.parent.name.startswith("checkpoint-") else log.parent
    name = log.name if log.is_dir() or "tfevents" in log.name else log.stem
    return name.lstrip(".") or "run"


def _refuse_another_log(log: Path, name: str, journal: Path) -> None:
    """Two logs may have one name: they are not one run unless the user says so."""
    recorded = Recorded(journal).path
    if recorded is None or log.absolute() in (recorded, *recorded.parents):
        return
    raise ConfigError(
        f"run {name!r} was recorded from {recorded}, not from {log.absolute()}; name this one with "
        f"--run, or give --run {name} if it is the same run"
    )


def _standing(journal: Path) -> tuple[int | None, list[Event]]:
    """Return a run's last step, and what was said last of incidents that are open."""
    fold = Fold(journal)
    fold.update()
    return fold.last_step, [known.last for known in fold.incidents.values() if known.is_open]


def _is_delivered(settings: Config, run: Run) -> bool:
    """Tell whether people were sent everything, where this process is to send it."""
    if settings.deliver != "here" or not (routes := outgoing.routes_of(settings)):
        return True
    outbox = Outbox(run.folder)
    outbox.refresh()
    return is_all_delivered(run, routes, outbox, time.time())


def _nothing_new(last: int | None, still_open: list[Event]) -> str:
    """Return a line for whoever asks more often than the run logs."""
    since = "" if last is None else f" since step {last}"
    incidents = [
        f"incident {told.incident} on {told.signal} is open ({told.severity}, since step "
        f"{told.started})"
        for told in still_open
    ]
    return "; ".join([f"nothing new{since}", *(incidents or ["no incident is open"])])
