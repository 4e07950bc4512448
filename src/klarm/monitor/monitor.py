"""The monitor: what training scripts call. It guards, locks, and passes on to the pipeline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from klarm.boundary import never_raises, report_failure
from klarm.console import Console
from klarm.detectors import Detector
from klarm.incidents import IncidentRules, Saved, can_be_loaded, damage_of
from klarm.journal import Journal, NewId, RecentJournal, Source
from klarm.metrics import METRICS, Binding, Origin, UserKey
from klarm.monitor.command_watch import CommandWatch
from klarm.monitor.ending import Ending, EndWatch, ending_by
from klarm.monitor.pipeline import Pipeline
from klarm.monitor.resume import Past
from klarm.monitor.silence import AFTER_FINISH, CanFallSilent
from klarm.monitor.steps import whole_step
from klarm.monitor.summary import notebook_table
from klarm.snapshots import EVERY_ROWS
from klarm.text import MAX_LINE, clean_line, described
from klarm.types import Alert, Command, Event, Incident


class Monitor(CanFallSilent):
    """Watches one run. `klarm.init` creates it.

    No method raises: an internal error is reported once and training continues. `log` works on the
    caller's thread, takes microseconds, and waits for nothing but the disk. Monitors are
    independent of each other. In a forked child, a monitor ignores all calls.
    """

    def __init__(
        self,
        run: str,
        detectors: Iterable[Detector],
        journal: Journal | None = None,
        console: Console | None = None,
        *,
        rules: IncidentRules | None = None,
        framework: str = "",
        user_keys: Mapping[str, UserKey] | None = None,
        of_journal: bool = False,
        from_log: bool = False,
        ids: NewId | None = None,
        clock: Callable[[], float] = time.time,
        snapshot_rows: int = EVERY_ROWS,
    ) -> None:
        self.run = run
        self.detectors = list(detectors)
        # Detectors of the user's own may read metrics of the user's own.
        metrics = frozenset(METRICS).union(*(detector.watches for detector in self.detectors))
        self.binding = Binding(
            framework, user_keys, of_journal=of_journal, own_metrics=metrics.difference(METRICS)
        )
        console = console or Console(enabled=False)
        self.notices = console.notices
        self._past = Past(journal, clock, self.notices, snapshot_rows, metrics)
        super().__init__(self._past.journal)
        self._pipeline = Pipeline(
            run,
            self.detectors,
            self.binding,
            self._past,
            console,
            rules=rules or IncidentRules(),
            ids=ids,
            clock=clock,
            snapshot_rows=snapshot_rows,
            metrics=metrics,
            from_log=from_log,
        )
        self.alert_counts = self._pipeline.summary.alert_counts
        # Called on the training thread, so these functions must not block.
        self.on_event, self.on_finish = self._pipeline.on_event, self._pipeline.on_finish
        self._tracker, self._timeline = self._pipeline.tracker, self._pipeline.timeline
        self._commands = self._pipeline.commands
        self._command_watch: CommandWatch | None = None
        self._end_watch: EndWatch | None = None
        self._ending: Ending | None = None
        self._inside = False
        self._postponed: list[tuple[Mapping[str, object], object]] = []

    @property
    def folder(self) -> Path | None:
        """Where the journal is, if the run is recorded."""
        return self._pipeline.summary.folder

    def log(self, metrics: Mapping[str, object], step: object = None) -> list[Alert]:
        """Watch what the trainer logged at a step; by default, the one after the previous."""
        try:
            return self._log(metrics, step)
        except Exception as error:  # noqa: BLE001  # the guard
            report_failure(self, "log", error)
            return []

    def _log(self, metrics: Mapping[str, object], step: object) -> list[Alert]:
        if self._silent_because:
            self._say_once(self._silent_because)
            return []
        if type(metrics) is not dict and not isinstance(metrics, Mapping):
            self._say_once(f"log takes a dict of metrics, got {type(metrics).__name__}")
            return []
        with self._lock:
            if self._silent_because:  # another thread has finished meanwhile
                return []
            if self._inside:  # a signal handler logs during another call of `log`
                self._postponed.append((metrics, step))
                return []
            self._inside = True
            try:
                alerts = self._pipeline.step(metrics, step)
                while self._postponed:
                    alerts += self._pipeline.step(*self._postponed.pop(0))
                return alerts
            finally:
                self._inside = False

    @never_raises(list)
    def log_late(self, metrics: Mapping[str, object], step: object, late: int) -> list[Alert]:
        """Replay a row of a journal that was logged late: during `step`, for the step `late`."""
        with self._lock:
            return [] if self._silent_because else self._pipeline.step(metrics, step, late)

    @never_raises(lambda: None)
    def checkpoint(self, step: int, path: str | os.PathLike[str]) -> None:
        """Note that the trainer saved a checkpoint, to which training can be rolled back."""
        if self._silent_because:
            return
        at, where = whole_step(step), _path_text(path)
        if at is None or where is None:
            wrong = f"step {described(step)}" if at is None else f"path {described(path)}"
            self._say_once(f"checkpoint was called with {wrong}: it is ignored", "a checkpoint")
            return
        problem = damage_of(where)  # reads the disk: `log` of another thread does not wait for it
        self._unless_silent(self._pipeline.checkpoint, at, where, damaged=bool(problem))
        if problem:
            self._say_once(
                f"checkpoint {clean_line(where)} cannot be loaded ({clean_line(problem)}); "
                "klarm does not suggest it as one to go back to",
                "a damaged checkpoint",
            )

    @never_raises(lambda: None)
    def last_good_checkpoint(self, incident: Incident | Event) -> Saved | None:
        """Return step and path of the last good checkpoint from before an incident.

        An incident begins with its first alert, or when its metric left what was normal. A
        checkpoint that was saved within another critical incident, is deleted by now or cannot be
        loaded is passed over. This reads from the disk.
        """
        return self._tracker.last_good_checkpoint(incident, can_be_loaded)

    @never_raises(lambda: None)
    def resume(
        self, step: int, rows: Iterable[tuple[int, Mapping[str, object]]] | None = None
    ) -> None:
        """Note that training continues at this step from an earlier state.

        This step and later ones are rolled back. Detectors are rebuilt from what came before: from
        `rows`, the trainer's own record, if given, else from the journal. `log` does this
        automatically if a step is logged again with other values.
        """
        if self._silent_because:
            return
        at = whole_step(step)
        if at is None:
            self._say_once(f"resume was called with step {described(step)}: it has no effect")
            return
        self._unless_silent(self._pipeline.resume, at, rows)

    def take_commands(self, watch: CommandWatch) -> None:
        """Stop the thread that reads commands when the run ends."""
        self._command_watch = watch

    def watch_end(self) -> None:
        """Find out how the run ends, from now on: this process trains it."""
        self._end_watch = EndWatch(lambda: self.steps_logged)

    @never_raises(lambda: None)
    def training_began(self, *packages: str) -> None:
        """Note that these packages train now: a run that ends before they say so has stopped."""
        if self._end_watch is not None:
            self._end_watch.training_began(*packages)

    @never_raises(lambda: None)
    def training_ended(self) -> None:
        """Note that training ended by itself."""
        if self._end_watch is not None:
            self._end_watch.training_ended()

    def end_as(self, ending: Ending) -> None:
        """Set how the run ends, for the `finish` that follows. For replays, which know it."""
        self._ending = ending

    def hand_over(self, command: Command) -> None:
        """Queue a command to be applied with the next step. Any thread may call this."""
        self._commands.append(command)

    @never_raises(lambda: None)
    def apply(self, command: Command) -> None:
        """Apply a command of a journal now. For replays, which know the right moment."""
        self._unless_silent(self._pipeline.apply, command, command.step or 0)

    @property
    def applied_commands(self) -> Collection[str]:
        """The keys of the commands that earlier processes of the run have applied."""
        return () if self._past.recorded is None else self._past.recorded.commands

    @never_raises(lambda: None)
    def say(self, message: str, about: str = "") -> None:
        """Print a message to the terminal, once per message or per topic."""
        self.notices.say_once(message, about)

    @never_raises(lambda: None)
    def _source(self, source: Source) -> None:
        """Note that steps are read from a log."""
        column = None if source.step_column is None else clean_line(source.step_column)
        safe = replace(source, path=clean_line(source.path), step_column=column)
        self._unless_silent(self._journal.record, safe)

    @never_raises(lambda: None)
    def _bound(self, origins: Mapping[str, Origin]) -> None:
        """Note which keys of the trainer the metrics of a journal were read from."""
        with self._lock:
            self.binding.recorded.update(origins)
            self._pipeline.bind()

    @never_raises(lambda: None)
    def finish(self, timeout: float = 5.0) -> None:
        """End the run: write everything, within `timeout` seconds, and print a summary."""
        ends_at = time.monotonic() + timeout
        if self._command_watch is not None:
            self._command_watch.stop(min(timeout, 0.5))
        if self._silent_because or not self._lock.acquire(timeout=timeout):
            return  # the run has ended already, or a call hangs on a disk that does not respond
        try:
            if self._silent_because:
                return
            self._silent_because = AFTER_FINISH
            self._pipeline.finish(ends_at, self._found_ending())
        finally:
            self._lock.release()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._end_watch is not None and error is not None:
            self._ending = ending_by(error)
        self.finish()

    @never_raises(Ending)
    def _found_ending(self) -> Ending:
        found = Ending() if self._end_watch is None else self._end_watch.look()
        return found if self._ending is None else self._ending

    @never_raises(str)
    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        state = "recorded" if self.recorded else "watched, not recorded"
        if self._silent_because:
            state = "finished" if self._silent_because == AFTER_FINISH else self._silent_because
        return notebook_table(self.run, self.steps_logged, state, self.incidents)

    @property
    def excused_alerts(self) -> Mapping[str, int]:
        """The number of alerts that did not count because of other signals, by detector."""
        return self._tracker.excused

    @property
    def incidents(self) -> list[Incident]:
        """The incidents of the run: first the resolved ones, then the others."""
        return self._tracker.incidents

    @property
    def recorded(self) -> bool:
        """Whether the run is recorded in a journal."""
        return not isinstance(self._journal, RecentJournal)

    @property
    def taken_up(self) -> bool:
        """Whether an earlier process began the run, and this one has not logged a step yet."""
        return self._timeline.from_earlier_process

    @property
    def steps_logged(self) -> int:
        """How many steps this process has logged."""
        return self._timeline.steps_logged

    @property
    def critical(self) -> list[Incident]:
        """The incidents that are open and critical now. Integrations react to them."""
        return self._tracker.critical

    def _say_once(self, message: str, about: str = "") -> None:
        self.notices.warn_once(message, about)


def _path_text(path: object) -> str | None:
    """Return a path as text; None if it is not a path, or too long for one."""
    try:
        where = os.fsdecode(path)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001  # the object of a user may raise anything
        return None
    return where if len(where) <= MAX_LINE else None
