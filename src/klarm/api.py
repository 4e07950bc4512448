"""The monitor of this process, and the three calls a training script needs."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from klarm.channels import Channel
from klarm.config import Config, load
from klarm.console import Console
from klarm.delivery import deliver_events
from klarm.detectors import Detector
from klarm.journal import (
    FILE_NAME,
    FORMAT,
    FileJournal,
    FormatError,
    InUseError,
    Started,
    host_name,
    run_folder,
)
from klarm.monitor import CommandWatch, DisabledMonitor, Monitor
from klarm.notices import Notices
from klarm.settings import ConfigError
from klarm.speech import Speech
from klarm.text import clean
from klarm.types import Alert
from klarm.version import __version__

_TRIES_TO_OPEN, _BETWEEN_TRIES_SECONDS = 3, 0.1

_current: Monitor | None = None
_end_of_worker: Any = None  # the finalizer that ends it in a forked worker of multiprocessing
_before_init = Notices()


def init(
    run: str | None = None,
    config: str | os.PathLike[str] | Config | None = None,
    *,
    detectors: Sequence[Detector | type[Detector]] = (),
    channels: Sequence[Channel] | Mapping[str, object] = (),
    rank: int | None = None,
    **overrides: object,
) -> Monitor:
    """Start watching a run and return its monitor, which `klarm.log` uses from now on.

    - `run` is the name of the run. The name of an earlier run resumes that run.
    - `config` is the path of a file to read instead of klarm.yaml, or a `Config`.
    - `detectors` are used in addition to klarm's own.
    - `channels` are notified of incidents: objects, or the section `channels` as in klarm.yaml.
    - Overrides are settings by section, as in the file:
      `klarm.init("my-run", kl_explosion={"sigma_multiplier": 5.0})`. `framework` names the
      framework that logs; `metrics` says where to read metrics whose keys klarm does not know.

    An invalid configuration raises ConfigError here. Nothing raises later.

    In a distributed run, rank 0 records the run and reports. The other ranks have the same monitor
    without a journal and without output: given the same numbers, they make the same decisions.
    Without `rank`, klarm reads the environment variable RANK, which torchrun sets.
    """
    if run is not None:
        overrides["run"] = run
    if detectors:
        overrides["detectors"] = detectors
    if channels:
        overrides["channels"] = channels
    monitor = start(load(config, overrides), rank=rank)
    monitor.watch_end()
    return monitor


class NotRecordedError(Exception):
    """A run that must be recorded cannot be."""


def start(
    settings: Config,
    run: str = "",
    rank: int | None = None,
    *,
    output_dir: str = "",
    from_log: bool = False,
) -> Monitor:
    """Start watching a run with a configuration that was read before, as integrations do.

    `run` names the run if the configuration does not; without a name, klarm makes one from the
    time. `output_dir` is recorded: it distinguishes runs to which a trainer gives the same name.
    `from_log` is for a command that follows a log. It raises NotRecordedError if the run cannot be
    recorded, because people would be notified again whenever the command is started.
    """
    if rank is None:
        rank = _rank_of_process()
    if settings.disabled:
        _replace_current(None)
        notices = Notices(stderr=settings.console, muted=rank != 0)
        off = DisabledMonitor(settings.run or run, notices)
        _replace_current(off)
        return off
    if settings.deliver == "here":  # otherwise this machine does not need the secrets
        settings.channels()  # raises if one is invalid
    name = settings.run or run or f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    folder = run_folder(settings.dir, name)
    _replace_current(None)
    notices = Notices(stderr=settings.console, muted=rank != 0)
    for remark in settings.remarks:
        notices.say(remark)
    resumed = os.path.exists(folder / FILE_NAME)  # noqa: PTH110  # the other one raises
    journal, notifies = None, rank == 0
    if notifies:
        try:
            journal = _once_free(lambda: FileJournal(folder, notices.warn))
        except InUseError:
            if from_log:
                raise NotRecordedError(f"another live process records run {name}") from None
            notifies = False
            notices.warn(
                f"another live process records run {name}: this one watches it but records "
                "nothing; in a distributed run, give klarm.init the rank"
            )
        except FormatError as error:
            raise ConfigError(
                f"{folder / FILE_NAME} cannot be continued: {error.strerror}. Give the run another "
                "name, or move the folder away"
            ) from None
        except OSError as error:
            problem = f"cannot write {folder} ({error.strerror})"
            remedy = "set KLARM_DIR to a directory that can be written"
            if from_log:
                raise NotRecordedError(f"{problem}; {remedy}") from None
            notices.warn(f"{problem}: the run is watched but not recorded; {remedy}")
    if journal is not None:
        _begin(journal, name, settings, notices, output_dir)
    console = Console(
        settings.console and rank == 0, alerts=settings.console_alerts, notices=notices
    )
    monitor = Monitor(
        name,
        settings.detectors(),
        journal,
        console,
        rules=settings.incident_rules(),
        framework=settings.framework,
        user_keys=settings.metrics,
        from_log=from_log,
    )
    if notifies:  # people are notified even if the run cannot be recorded
        known = folder if journal is not None else None
        names = deliver_events(monitor, known, settings, notices.warn, resumed=resumed)
        if names:
            notices.say(f"incidents are sent to {', '.join(names)}")
    if journal is not None:
        watch = CommandWatch(folder, monitor.hand_over, notices, applied=monitor.applied_commands)
        monitor.take_commands(watch)
        watch.start()
    _replace_current(monitor)
    return monitor


def log(metrics: Mapping[str, object], step: object = None) -> list[Alert]:
    """Log one step of the run that `klarm.init` started; return the alerts of its detectors."""
    if _current is None:
        _before_init.warn_once("log was called before klarm.init: nothing is watched")
        return []
    return _current.log(metrics, step)


def current_monitor() -> Monitor | None:
    """Return the monitor that the last call of `klarm.init` made, if any."""
    return _current


def finish(timeout: float = 5.0) -> None:
    """End the run that `klarm.init` started. It is called automatically when the process exits."""
    if _current is not None:
        _current.finish(timeout)


def _once_free(open_journal: Callable[[], FileJournal]) -> FileJournal:
    """Open a journal; `klarm close` may be writing to it briefly. Raises InUseError."""
    for _ in range(_TRIES_TO_OPEN - 1):
        try:
            return open_journal()
        except InUseError:
            time.sleep(_BETWEEN_TRIES_SECONDS)
    return open_journal()


def _begin(
    journal: FileJournal, run: str, settings: Config, notices: Notices, output_dir: str
) -> None:
    """Write how the run, or its continuation, begins."""
    if journal.repaired:
        notices.warn(journal.repaired)
    journal.record(
        Started(
            run=run,
            started=time.time(),
            klarm=__version__,
            host=host_name(),
            config=settings.as_dict(),
            framework=clean(settings.framework),
            format=FORMAT,
            output_dir=clean(output_dir),
            sentences={
                name: Speech(dict(one.messages), dict(one.recommendations))
                for name, one in settings.own_detectors.items()
            },
        )
    )
    notices.say(f"run {run} is recorded in {journal.path}")


def _rank_of_process() -> int:
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() else 0


def _replace_current(monitor: Monitor | None) -> None:
    """Finish the previous monitor, and let the new one finish when the process exits."""
    global _current, _end_of_worker  # noqa: PLW0603
    if _current is not None:
        atexit.unregister(_current.finish)
        if _end_of_worker is not None:
            _end_of_worker.cancel()  # it would keep the monitor in memory
            _end_of_worker = None
        _current.finish()
    _current = monitor
    if monitor is not None:
        atexit.register(monitor.finish)
        if "multiprocessing.util" in sys.modules:
            # A forked worker exits without calling atexit, but it runs its finalizers.
            finalizers = sys.modules["multiprocessing.util"]
            _end_of_worker = finalizers.Finalize(None, monitor.finish, exitpriority=1)
