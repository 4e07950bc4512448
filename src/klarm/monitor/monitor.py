"""The monitor: passes each step from the trainer to detectors, journal and console."""

from __future__ import annotations

import os
import shlex
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from klarm.boundary import describe, never_raises
from klarm.console import Console
from klarm.detectors import Detector
from klarm.incidents import (
    Change,
    IncidentRules,
    Saved,
    can_be_loaded,
    counted,
    damage_of,
    incidents_in_sum,
)
from klarm.journal import (
    Bound,
    Checkpoint,
    Finish,
    Journal,
    LateRow,
    NewId,
    RecentJournal,
    Record,
    Resume,
    Source,
    Step,
    close_at_rest,
    ended_by_crash,
    spell_non_finite,
    unused_ids,
)
from klarm.metrics import METRICS, Binding, Origin, UserKey
from klarm.monitor.command_watch import CommandWatch
from klarm.monitor.coverage import BindingReport, nothing_known, watched
from klarm.monitor.ending import REASONS, Ending, EndWatch, ending_by
from klarm.monitor.evaluator import Evaluator
from klarm.monitor.first_alerts import FirstAlerts
from klarm.monitor.resume import Past
from klarm.monitor.steps import Timeline, whole_step
from klarm.notebook import html_table
from klarm.notices import ReportsFailures
from klarm.snapshots import EVERY_ROWS
from klarm.text import MAX_LINE, clean_line, described
from klarm.types import Alert, Command, Event, Incident

_News = TypeVar("_News")

_AFTER_FINISH = "log was called after finish: the run is no longer watched"
_AFTER_FORK = (
    "this process was forked from the one that watches the run, so its calls are ignored; "
    "to watch here, call klarm.init in this process"
)


class Monitor(ReportsFailures):
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
        ids: NewId | None = None,
        clock: Callable[[], float] = time.time,
        snapshot_rows: int = EVERY_ROWS,
    ) -> None:
        self.run = run
        self.detectors = list(detectors)
        # Detectors of the user's own may read metrics of the user's own.
        metrics = METRICS.keys() | {name for d in self.detectors for name in d.watches}
        self.binding = Binding(
            framework, user_keys, of_journal=of_journal, own_metrics=metrics - METRICS.keys()
        )
        self._metrics = metrics
        self.alert_counts = {"warning": 0, "critical": 0}
        # Called with every event after the journal has it, on the training thread, so these
        # functions must not block.
        self.on_event: list[Callable[[Event], object]] = []
        # Called at the end of the run with the seconds that are left.
        self.on_finish: list[Callable[[float], object]] = []
        self._console = console or Console(enabled=False)
        self.notices = self._console.notices
        self._past = Past(journal, clock, self.notices, snapshot_rows, metrics)
        earlier = self._past.recorded
        ids = ids or unused_ids(() if earlier is None else earlier.incidents)
        rules = rules or IncidentRules()
        self._evaluator = Evaluator(self.detectors, rules, ids=ids, on_failure=self._on_failure)
        self._tracker = self._evaluator.tracker
        self._first_alerts = FirstAlerts(self.detectors, rules, self._tracker.has_open)
        self._bindings = 0  # how many of the binding's keys it was told of
        self._journal = self._past.journal
        self._clock = clock
        self._lock = threading.RLock()
        self._timeline = Timeline(metrics)
        self._report: BindingReport | None = BindingReport(
            self.detectors, self.binding, self._console.say
        )
        self._snapshot_rows = self._until_snapshot = snapshot_rows
        self._inside = False
        self._postponed: list[tuple[Mapping[str, object], object]] = []
        self._silent_because = ""
        self._since = ""  # qualifies the number of steps if an earlier process logged some, too
        self._commands: deque[Command] = deque()  # handed over, but not applied yet
        self._command_watch: CommandWatch | None = None
        self._end_watch: EndWatch | None = None
        self._ending: Ending | None = None
        if earlier is not None:
            self._tracker.checkpoints.recall(earlier.checkpoints)
        if earlier is not None and earlier.last_step is not None:
            self._timeline.continue_after(earlier.last_step)
            self._since = " in this process"
            self._evaluator.bind(earlier.origins)
            self._console.say(f"run {run} exists: its journal ends at step {earlier.last_step}")
        if self._past.damage:
            self._console.say(self._past.damage)
        _monitors.add(self)

    @property
    def folder(self) -> Path | None:
        """Where the journal is, if the run is recorded."""
        path = self._journal.path
        return None if path is None else path.parent

    @never_raises(list)
    def log(self, metrics: Mapping[str, object], step: object = None) -> list[Alert]:
        """Watch what the trainer logged at a step; by default, the one after the previous."""
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
                alerts = self._step(metrics, step)
                while self._postponed:
                    alerts += self._step(*self._postponed.pop(0))
                return alerts
            finally:
                self._inside = False

    @never_raises(list)
    def log_late(self, metrics: Mapping[str, object], step: object, late: int) -> list[Alert]:
        """Replay a row of a journal that was logged late: during `step`, for the step `late`."""
        with self._lock:
            return [] if self._silent_because else self._step(metrics, step, late)

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
        with self._lock:
            self._tracker.checkpoints.add(at, where, damaged=bool(problem))
            if not self._silent_because:
                self._journal.record(Checkpoint(at, self._clock(), clean_line(where)))
        if problem:
            self._say_once(
                f"checkpoint {clean_line(where)} cannot be loaded ({clean_line(problem)}); "
                "klarm does not suggest it as one to go back to",
                "a damaged checkpoint",
            )

    @never_raises(lambda: None)
    def last_good_checkpoint(self, incident: Incident | Event) -> Saved | None:
        """Return step and path of the last checkpoint from before an incident.

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
        with self._lock:
            if not self._silent_because:
                self._resume(at, rows)

    def take_commands(self, watch: CommandWatch) -> None:
        """Stop the thread that reads commands when the run ends."""
        self._command_watch = watch

    def watch_end(self) -> None:
        """Find out how the run ends, from now on: this process trains it."""
        self._end_watch = EndWatch()

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
        """Say how the run ends, for the `finish` that follows. For replays, which know it."""
        self._ending = ending

    def hand_over(self, command: Command) -> None:
        """Queue a command to be applied with the next step. Any thread may call this."""
        self._commands.append(command)

    @never_raises(lambda: None)
    def apply(self, command: Command) -> None:
        """Apply a command of a journal now. For replays, which know the right moment."""
        with self._lock:
            if not self._silent_because:
                self._apply(command, command.step or 0)

    @property
    def applied_commands(self) -> Collection[str]:
        """The keys of the commands that earlier processes of the run have applied."""
        return () if self._past.recorded is None else self._past.recorded.commands

    @never_raises(lambda: None)
    def say(self, message: str, about: str = "") -> None:
        """Print a message to the terminal, once per message or per topic."""
        self.notices.say_once(message, about)

    @never_raises(lambda: None)
    def _source(self, path: str | os.PathLike[str], kept: int) -> None:
        """Note that steps are read from a log, of which so many are recorded already."""
        with self._lock:
            if not self._silent_because:
                self._journal.record(Source(clean_line(str(path)), kept))

    @never_raises(lambda: None)
    def _bound(self, origins: Mapping[str, Origin]) -> None:
        """Note which keys of the trainer the metrics of a journal were read from."""
        with self._lock:
            self.binding.recorded.update(origins)
            self._bind()

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
            self._silent_because = _AFTER_FINISH
            if self._report is not None:
                self._report.finish()
            steps, ending = self._timeline.steps_logged, self._found_ending()
            changes: Sequence[Change] = ()
            try:
                changes = self._end(ending)
            finally:
                outcome, error = ending
                finish = Finish(self._clock(), steps, outcome=outcome, error=error)
                self._record(finish, changes)
            self._publish(changes)
            self._journal.close(max(0.0, ends_at - time.monotonic()))
            for closing in self.on_finish:
                self._inform(closing, max(0.0, ends_at - time.monotonic()))
            # Snapshots come last: without them, only resuming takes longer.
            self._past.close(max(0.0, ends_at - time.monotonic()))
            self.notices.finish()
            if any(self.alert_counts.values()):
                self._console.say(self._alerts_in_sum())
            ended = ending.in_words(self.run, f"{counted(steps, 'step')}{self._since}")
            self._console.say(f"{ended}: {self._summary()}")
        finally:
            self._lock.release()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._end_watch is not None and error is not None:
            self._ending = ending_by(error)
        self.finish()

    @never_raises(str)
    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        rows = [("steps", f"{self.steps_logged} in this process"), ("state", self._in_words())]
        for known in self.incidents:
            if known.opened is not None:
                until = "now" if known.ended is None else str(known.ended)
                told = f"{known.signal} {known.severity}, steps {known.started} to {until}"
                rows.append((f"incident {known.number}", f"{told}: {known.worst.message}"))
        return html_table(f"klarm run {self.run}", rows)

    def _in_words(self) -> str:
        if self._silent_because:
            return "finished" if self._silent_because == _AFTER_FINISH else self._silent_because
        return "recorded" if self.recorded else "watched, not recorded"

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

    def _step(
        self, metrics: Mapping[str, object], step: object, late: int | None = None
    ) -> list[Alert]:
        """Process one call of `log`: names, position, detectors, incidents, journal."""
        values: Mapping[str, float] = self.binding.read(metrics)
        if self.binding.remarks:
            self._say_remarks()
        given = whole_step(step)
        if given is None and step is not None:
            self._say_once(
                f"step {described(step)} is not a whole number from 0 on: klarm uses the step "
                "after the previous one instead",
                about="a step that is not a whole number",
            )
        at, is_back = self._timeline.place(given)
        row: LateRow | None = None
        repeats: Mapping[str, float] = {}
        if late is not None:
            row = self._late_again(at, values, late)
        elif is_back:
            row, repeats = self._late(at, values)
            if row is None:
                self._resume(at)
            elif not row.values:
                self._record_late(row, repeats)
                return []
            else:
                at, values = row.step, row.values
        if self._commands and at != self._timeline.step:
            self._apply_commands(at)
        if len(self.binding.keys) != self._bindings:
            self._bind()
        new = self._timeline.new_at(at, values) if row is None else values
        alerts: list[Alert] = []
        changes: Sequence[Change] = ()
        try:
            alerts, changes = self._evaluator.look(at, new)
        finally:  # the row is recorded even if something fails
            also = (*alerts, *changes) if alerts or changes else ()
            if row is None:
                self._record_step(at, values, also)
            else:
                self._record_late(row, repeats, also)
        for alert in alerts:
            self.alert_counts[alert.severity] += 1
            self._inform(self._console.alert, alert)
        for alert in self._first_alerts.pick(at, new, alerts):
            self._inform(self._console.first_alert, alert)
        if changes:
            self._publish(changes)
        if self._report is not None and not self._report.step(at, new):
            self._report = None
        self._until_snapshot -= 1
        if not self._until_snapshot:
            self._take_snapshot()
        return alerts

    def _late(
        self, step: int, values: Mapping[str, float]
    ) -> tuple[LateRow | None, Mapping[str, float]]:
        """Return the late row of an earlier step, and the values that only repeat its record.

        The row is None if training was rolled back to that step. In that case, a metric that is
        judged was logged at that step or later already, and now has another value.
        """
        timeline, had = self._timeline, self._tracker.recent.had
        if timeline.from_earlier_process:
            return None, {}
        known = timeline.logged_since(step, values)
        repeats = {name: values[name] for name in known if had(name, step, values[name])}
        if repeats and repeats.keys() == values.keys() & self._metrics:
            return LateRow(timeline.step or 0, {}, step), values  # what nobody knows repeats, too
        if not known.isdisjoint(self._evaluator.judged - repeats.keys()):
            return None, {}
        new = {name: value for name, value in values.items() if name not in repeats}
        timeline.note_late(step, new)
        return LateRow(timeline.step or 0, new, step), repeats

    def _late_again(self, step: int, values: Mapping[str, float], late: int) -> LateRow:
        """Return a late row of a journal, in a replay."""
        timeline = self._timeline
        if timeline.from_earlier_process or step < (timeline.step or 0):
            self._resume(step)
        if step != timeline.step:  # the line of the step is lost
            timeline.new_at(step, {})
        timeline.note_late(late, values)
        return LateRow(step, values, late)

    def _bind(self) -> None:
        """Tell detectors and the journal from which key each metric is read, and its kind."""
        self._bindings = len(self.binding.keys)
        recording = self._evaluator.bind(self.binding.origins())
        if recording:
            self._journal.record(Bound.of(recording))

    @never_raises(Ending)
    def _found_ending(self) -> Ending:
        if self._ending is not None:
            return self._ending
        return Ending() if self._end_watch is None else self._end_watch.look()

    def _end(self, ending: Ending) -> Sequence[Change]:
        """Return the changes that the end of the run causes."""
        recorded = self._past.recorded
        self._apply_commands((self._timeline.step or 0) + 1)
        if self._timeline.from_earlier_process and recorded is not None:
            return ended_by_crash(recorded)  # this process has not logged a single step
        return self._tracker.finish(REASONS[ending.outcome])

    def _apply_commands(self, step: int) -> None:
        """Apply and record the commands given since the last step."""
        while self._commands:
            command = msgspec.structs.replace(self._commands.popleft(), step=step)
            self._apply(command, step)

    def _apply(self, command: Command, step: int) -> None:
        recorded = self._past.recorded
        changes: Sequence[Change]
        if self._timeline.from_earlier_process and recorded is not None:
            changes = close_at_rest(recorded, command)  # the detectors are not rebuilt yet
        else:
            changes = self._tracker.apply(command, step)
        self._record(command, changes)
        self._publish(changes)

    # These methods have their own guard, so that people are notified even if recording fails.
    @never_raises(lambda: None)
    def _record_step(self, step: int, values: Mapping[str, float], also: Sequence[Record]) -> None:
        self._journal.step(step, self._clock(), values, also)

    def _record_late(
        self, row: LateRow, repeats: Mapping[str, float], also: Sequence[Record] = ()
    ) -> None:
        values, known = spell_non_finite(row.values), spell_non_finite(repeats)
        self._record(Step(row.step, self._clock(), values, late=row.late, repeats=known), also)

    @never_raises(lambda: None)
    def _take_snapshot(self) -> None:
        self._until_snapshot = self._snapshot_rows
        self._past.keep(self._evaluator, self._timeline, self._snapshot_rows)

    @never_raises(lambda: None)
    def _record(self, record: Record, also: Sequence[Record]) -> None:
        self._journal.record(record, also)

    def _publish(self, changes: Sequence[Change]) -> None:
        """Pass changes to the console and to listeners, after the journal has them."""
        for change in changes:
            if isinstance(change, Event):
                for listener in (self._console.event, *self.on_event):
                    self._inform(listener, change)

    @never_raises(lambda: None)  # guarded one by one, so that a failing listener affects no other
    def _inform(self, listener: Callable[[_News], object], news: _News) -> None:
        listener(news)

    def _summary(self) -> str:
        """Return a summary of the run. No incident means nothing if nothing was watched."""
        steps, on = self._timeline.steps_logged, any(d.enabled for d in self.detectors)
        if steps and on and not watched(self.detectors, self.binding):
            return f"NOTHING WAS WATCHED: {nothing_known(self.binding)}"
        summary = incidents_in_sum(self.incidents)
        path = self._journal.path
        if path is None or not any(incident.number for incident in self.incidents):
            return summary
        return f"{summary}; see klarm incidents {shlex.quote(str(path.parent))}"

    def _alerts_in_sum(self) -> str:
        """Say how many alerts there were, and how to see those that were not shown."""
        critical, path = self.alert_counts["critical"], self._journal.path
        said = f"{counted(sum(self.alert_counts.values()), 'alert')}, {critical} critical"
        if path is None:
            return said
        return f"{said}; list them with: klarm replay {shlex.quote(str(path.parent))} --alerts"

    def _resume(
        self, step: int, rows: Iterable[tuple[int, Mapping[str, object]]] | None = None
    ) -> None:
        if self._past.has_too_many_rollbacks():
            self._say_once(
                "steps keep going back: from now on klarm takes them in the order they are logged"
            )
            return
        with self._past.lock:
            self._roll_back(step, rows)

    def _roll_back(
        self, step: int, rows: Iterable[tuple[int, Mapping[str, object]]] | None
    ) -> None:
        kept = None
        if rows is not None:
            kept = [(at, self.binding.read(metrics)) for at, metrics in rows if at < step]
            self._bind()
        before = self._past.before(step, kept, self._evaluator)
        if before is None:
            self._say_once(
                "training was rolled back, but there is no record to rebuild the baselines from"
            )
            return
        self._tracker.checkpoints.go_back_to(step)
        snapshot = before.snapshot
        logged = None if snapshot is None else snapshot.logged
        history = self._timeline.following(before.rows, logged)
        changes = self._evaluator.rebuild(
            history, before.told, step, undone=before.undone, restored=snapshot is not None
        )
        self._timeline.go_on_at(step)
        self._first_alerts.reset()
        self._past.forget_from(step)
        recorded = self._past.recorded
        if snapshot is None and (recorded is None or recorded.steps >= self._snapshot_rows):
            self._until_snapshot = 1  # rebuilding took long, so take a snapshot soon
        self._record(Resume(step, self._clock()), changes)
        self._console.say(f"run {self.run} {before.how}")
        self._publish(changes)

    def _say_once(self, message: str, about: str = "") -> None:
        self.notices.warn_once(message, about)

    def _say_remarks(self) -> None:
        while self.binding.remarks:
            self.notices.warn(self.binding.remarks.pop(0))

    def _on_failure(self, detector: str, error: Exception) -> None:
        self._failed(*describe(f"detector {detector}", error))

    def _fall_silent(self) -> None:
        if not self._silent_because:
            self._journal.abandon()
        self._silent_because = _AFTER_FORK


def _path_text(path: object) -> str | None:
    """Return a path as text; None if it is not a path, or too long for one."""
    try:
        where = os.fsdecode(path)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001  # the object of a user may raise anything
        return None
    return where if len(where) <= MAX_LINE else None


_monitors: weakref.WeakSet[Monitor] = weakref.WeakSet()


def _silence_after_fork() -> None:
    for monitor in _monitors:
        monitor._fall_silent()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_silence_after_fork)
