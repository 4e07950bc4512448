"""The way of a row: from the trainer's names to detectors, incidents, journal and console."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from klarm.boundary import describe, never_raises, report_failure
from klarm.console import Console
from klarm.detectors import Detector
from klarm.incidents import Change, IncidentRules
from klarm.journal import (
    Bound,
    Checkpoint,
    Finish,
    LateRow,
    NewId,
    Record,
    Resume,
    Step,
    close_at_rest,
    spell_non_finite,
    unused_ids,
)
from klarm.metrics import Binding
from klarm.monitor.binding_report import BindingReport
from klarm.monitor.ending import Ending
from klarm.monitor.evaluator import Evaluator
from klarm.monitor.first_alerts import FirstAlerts
from klarm.monitor.last_changes import last_changes
from klarm.monitor.late_rows import LateRows
from klarm.monitor.resume import Past
from klarm.monitor.rollback import RolledBack, roll_back
from klarm.monitor.run_summary import RunSummary
from klarm.monitor.steps import Timeline, whole_step
from klarm.monitor.summary import still_open
from klarm.notices import ReportsFailures
from klarm.text import clean_line, described
from klarm.types import Alert, Command, Event

_News = TypeVar("_News")

_MAX_REPEATED = 20  # calls for one step that add no metric; some scripts log every micro-batch


class Pipeline(ReportsFailures):
    """Processes the rows of one run, one at a time: the monitor calls it under its lock.

    Its methods may raise; the monitor guards them. Recording and listeners have guards of their
    own, so that people are notified even if recording fails, and one failing listener affects no
    other.
    """

    def __init__(
        self,
        run: str,
        detectors: Sequence[Detector],
        binding: Binding,
        past: Past,
        console: Console,
        *,
        rules: IncidentRules,
        ids: NewId | None,
        clock: Callable[[], float],
        snapshot_rows: int,
        metrics: frozenset[str],
        from_log: bool,
    ) -> None:
        """Prepare for the first row. `metrics` are the names that klarm and its detectors know."""
        self.run, self.detectors, self.binding, self.past = run, detectors, binding, past
        self.journal, self.clock, self.notices = past.journal, clock, console.notices
        # Called with every event after the journal has it.
        self.on_event: list[Callable[[Event], object]] = []
        # Called at the end of the run with the seconds that are left.
        self.on_finish: list[Callable[[float], object]] = []
        self.commands: deque[Command] = deque()  # handed over, but not applied yet
        earlier = past.recorded
        self._last_seq: dict[str, int] = {}  # by incident, of the events of this process
        ids = ids or unused_ids(() if earlier is None else earlier.incidents)
        self._evaluator = Evaluator(
            detectors,
            rules,
            ids=ids,
            framework=binding.framework,
            on_failure=self._on_failure,
        )
        self.tracker = self._evaluator.tracker
        self.timeline = Timeline(metrics)
        self._late_rows = LateRows(self.timeline, self._evaluator, metrics)
        self._first_alerts = FirstAlerts(detectors, rules, self.tracker.has_open)
        self._console = console
        self._report: BindingReport | None = BindingReport(
            detectors, binding, console.say, from_log=from_log
        )
        self._bindings = 0  # how many of the binding's keys the detectors know of
        self._snapshot_rows = self._until_snapshot = snapshot_rows
        self._repeated_step, self._repeated = -1, 0  # calls that added nothing to a step
        self.summary = RunSummary(run, detectors, rules, binding, past, self.timeline, self.tracker)
        if earlier is not None:
            self.tracker.checkpoints.recall(earlier.checkpoints)
        if earlier is not None and earlier.last_step is not None:
            self.timeline.continue_after(earlier.last_step)
            self.summary.since = " in this process"
            self._evaluator.bind(earlier.origins)
            console.say(f"run {run} exists: its journal ends at step {earlier.last_step}")
        if past.damage:
            console.say(past.damage)

    def step(
        self, metrics: Mapping[str, object], step: object, late: int | None = None
    ) -> list[Alert]:
        """Process one call of `log`: names, position, detectors, incidents, journal."""
        values: Mapping[str, float] = self.binding.read(metrics)
        if self.binding.remarks:
            self._say_remarks()
        given = whole_step(step)
        if given is None and step is not None:
            self._say_once(
                f"step {described(step)} is not a non-negative integer; klarm uses the previous "
                "step + 1",
                about="a step that is not a whole number",
            )
        at, is_back = self.timeline.place(given)
        row: LateRow | None = None
        repeats: Mapping[str, float] = {}
        if late is not None:
            row = self._late_again(at, values, late)
        elif is_back:
            if not self.timeline.from_earlier_process:
                row, repeats = self._late_rows.place(at, values)
            if row is None:
                self.resume(at)
            elif not row.values:
                self._record_late(row, repeats)
                return []
            else:
                at, values = row.step, row.values
        if self.commands and at != self.timeline.step:
            self._apply_commands(at)
        if len(self.binding.keys) != self._bindings:
            self.bind()
        new = self.timeline.new_at(at, values) if row is None else values
        if not new and values:
            self._note_repeated_step(at)
        alerts: list[Alert] = []
        changes: Sequence[Change] = ()
        try:
            alerts, changes = self._judge(at, new, row)
        finally:  # the row is recorded even if something fails
            also = (*alerts, *changes) if alerts or changes else ()
            if row is None:
                self._record_step(at, values, also)
            else:
                self._record_late(row, repeats, also)
        for alert in alerts:
            self.summary.count(alert)
            self._inform(self._console.alert, alert)
        if alerts or self._first_alerts.episodes:
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

    def _judge(
        self, at: int, new: Mapping[str, float], row: LateRow | None
    ) -> tuple[list[Alert], Sequence[Change]]:
        """Return the alerts of a row and what they change."""
        alerts, changes = self._evaluator.look(at, new, late=None if row is None else row.late)
        return alerts, self._numbered(changes)

    def apply(self, command: Command, step: int) -> None:
        """Apply and record one command."""
        recorded = self.past.recorded
        changes: Sequence[Change]
        if self.timeline.from_earlier_process and recorded is not None:
            changes = close_at_rest(recorded, command)  # the detectors are not rebuilt yet
        else:
            changes = self._numbered(self.tracker.apply(command, step))
        self._record(command, changes)
        self._publish(changes)

    def resume(
        self, step: int, rows: Iterable[tuple[int, Mapping[str, object]]] | None = None
    ) -> None:
        """Roll back to just before a step, unless that has happened too often."""
        if self.past.has_too_many_rollbacks():
            self._say_once(
                "steps keep going back: from now on klarm takes them in the order they are logged"
            )
            return
        with self.past.lock:
            kept = None
            if rows is not None:
                kept = [(at, self.binding.read(metrics)) for at, metrics in rows if at < step]
                self.bind()
            done = roll_back(step, kept, self.past, self._evaluator, self.timeline)
            if done is None:
                self._say_once(
                    "training was rolled back, but there is no record to rebuild the baselines from"
                )
                return
            if done.undone and self.timeline.steps_logged:
                self.summary.rolled_back = ", including those that were rolled back"
            self._first_alerts.reset()
            if done.rows_read is None or done.rows_read >= self._snapshot_rows:
                self._until_snapshot = 1  # rebuilding took long, so take a snapshot soon
            corrections = self._numbered(done.corrections)
            self._record(Resume(step, self.clock()), corrections)
            self._console.say(f"run {self.run} {done.how}{self._open_since_before(done)}")
            self._publish(corrections)

    def _open_since_before(self, done: RolledBack) -> str:
        """Return which incidents stay open without an event that says so; may be empty."""
        said = {event.id for event in done.corrections}
        known = [i for i in self.tracker.incidents if i.opened is not None]
        which = still_open(incident for incident in known if incident.id not in said)
        return f"; {which}" if which else ""

    def bind(self) -> None:
        """Tell detectors and the journal from which key each metric is read, and its kind."""
        self._bindings = len(self.binding.keys)
        recording = self._evaluator.bind(self.binding.origins())
        if recording:
            self.journal.record(Bound.of(recording))

    def checkpoint(self, step: int, path: str, *, damaged: bool) -> None:
        """Note a checkpoint."""
        self.tracker.checkpoints.add(step, path, damaged=damaged)
        self.journal.record(Checkpoint(step, self.clock(), clean_line(path)))

    def finish(self, ends_at: float, ending: Ending) -> None:
        """End the run until a moment of the monotonic clock: write everything, say a summary."""
        if self._report is not None:
            self._report.finish()
        steps = self.timeline.steps_logged
        changes: Sequence[Change] = ()
        try:
            self._apply_commands((self.timeline.step or 0) + 1)
            changes = self._numbered(
                last_changes(ending, self.tracker, self.timeline, self.past.recorded)
            )
        finally:
            outcome, error = ending.outcome, ending.error
            self._record(Finish(self.clock(), steps, outcome=outcome, error=error), changes)
        self._publish(changes)
        self.journal.close(max(0.0, ends_at - time.monotonic()))
        for closing in self.on_finish:
            self._inform(closing, max(0.0, ends_at - time.monotonic()))
        # Snapshots come last: without them, only resuming takes longer.
        self.past.close(max(0.0, ends_at - time.monotonic()))
        self.notices.finish()
        for line in self.summary.lines(ending, changes):
            self._console.say(line)

    def _note_repeated_step(self, step: int) -> None:
        """Warn if a step is logged again and again: only its first values are judged."""
        self._repeated = self._repeated + 1 if step == self._repeated_step else 1
        self._repeated_step = step
        if self._repeated == _MAX_REPEATED:
            self._say_once(
                f"step {step} was logged {_MAX_REPEATED + 1} times; only its first values are "
                "watched. Does the step that the script passes to klarm advance?",
                about="a step that does not advance",
            )

    def _late_again(self, step: int, values: Mapping[str, float], late: int) -> LateRow:
        """Return a late row of a journal, in a replay."""
        timeline = self.timeline
        if timeline.from_earlier_process or step < (timeline.step or 0):
            self.resume(step)
        if step != timeline.step:  # the line of the step is lost
            timeline.new_at(step, {})
        timeline.note_late(late, values)
        return LateRow(step, values, late)

    def _apply_commands(self, step: int) -> None:
        """Apply and record the commands given since the last step."""
        while self.commands:
            command = msgspec.structs.replace(self.commands.popleft(), step=step)
            self.apply(command, step)

    def _record_step(self, step: int, values: Mapping[str, float], also: Sequence[Record]) -> None:
        try:
            self.journal.step(step, self.clock(), values, also)
        except Exception as error:  # noqa: BLE001  # a guard of its own
            report_failure(self, "_record_step", error)

    def _record_late(
        self, row: LateRow, repeats: Mapping[str, float], also: Sequence[Record] = ()
    ) -> None:
        values, known = spell_non_finite(row.values), spell_non_finite(repeats)
        self._record(Step(row.step, self.clock(), values, late=row.late, repeats=known), also)

    @never_raises(lambda: None)
    def _record(self, record: Record, also: Sequence[Record]) -> None:
        self.journal.record(record, also)

    @never_raises(lambda: None)
    def _take_snapshot(self) -> None:
        self._until_snapshot = self._snapshot_rows
        self.past.keep(self._evaluator, self.timeline, self._snapshot_rows)

    def _numbered(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Give each event its number within its incident, before it is recorded."""
        return [
            msgspec.structs.replace(change, seq=self._next_seq(change.id))
            if isinstance(change, Event)
            else change
            for change in changes
        ]

    def _next_seq(self, incident: str) -> int:
        recorded = self.past.recorded
        if incident in self._last_seq:
            seq = self._last_seq[incident] + 1
        else:  # of an earlier process, or new
            seq = 1 if recorded is None else recorded.next_seq(incident)
        self._last_seq[incident] = seq
        return seq

    def _publish(self, changes: Sequence[Change]) -> None:
        """Pass changes to the console and to listeners, after the journal has them."""
        for change in changes:
            if isinstance(change, Event):
                for listener in (self._console.event, *self.on_event):
                    self._inform(listener, change)

    @never_raises(lambda: None)
    def _inform(self, listener: Callable[[_News], object], news: _News) -> None:
        listener(news)

    def _say_once(self, message: str, about: str = "") -> None:
        self.notices.warn_once(message, about)

    def _say_remarks(self) -> None:
        while self.binding.remarks:
            self.notices.warn(self.binding.remarks.pop(0))

    def _on_failure(self, detector: str, error: Exception) -> None:
        self._failed(*describe(f"detector {detector}", error))
