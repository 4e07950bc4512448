"""The past of a run: what was logged before the step from which training continues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from klarm.journal import (
    Damage,
    Fold,
    History,
    IncidentRecord,
    Journal,
    RecentJournal,
    Stored,
    history,
    with_commands,
)
from klarm.metrics import METRICS
from klarm.monitor.evaluator import Evaluator
from klarm.monitor.steps import Timeline
from klarm.notices import Notices
from klarm.snapshots import Keeper, SharedFold, Snapshot, UnfitError, pack_state, unpack_state

# If steps go back more often, the log mixes several runs. Its rows are then taken in order.
_MAX_RESUMES = 100

Rows = Sequence[tuple[int, Mapping[str, float]]]


class Before(NamedTuple):
    """What remains of a run when it continues at a step."""

    rows: Iterable[History]  # can be read only once
    recorded: Sequence[IncidentRecord]  # the incidents as recorded in the journal
    undone: bool  # whether rows are rolled back
    how: str  # what happens, in words
    snapshot: Snapshot | None  # the snapshot that was restored; the rows begin after it


class Past:
    """Reads the past from the journal of the run, or uses the trainer's own record of it."""

    def __init__(
        self,
        journal: Journal | None,
        clock: Callable[[], float],
        notices: Notices,
        snapshot_rows: int,
        metrics: Set[str] = METRICS.keys(),
    ) -> None:
        """Look at the journal. `metrics` are those that detectors may judge."""
        self._metrics = metrics
        # A run that is not recorded can go back to what is in memory.
        self.journal: Journal = journal or RecentJournal(metrics)
        self._clock = clock
        self._resumes = 0
        self._stored: Stored | None = None
        self._keeper = Keeper(self.journal.path, notices, snapshot_rows)
        self._shared = SharedFold()
        # Must be held during a rollback, because the snapshot thread updates the fold as well.
        self.lock = self._shared.lock
        self._rows = 0  # how many rows were logged up to the last snapshot
        self._is_in_order = True  # False once a step back was not treated as a rollback
        # The fold of the journal when it was last read; None if the journal is incomplete.
        self.recorded: Fold | None = None
        self._read(complete=False)
        # The fold is up to date until this process logs something.
        self._is_current = self.recorded is not None and self.recorded.steps > 0

    @property
    def damage(self) -> str:
        """A message about damaged lines of the journal; empty if there are none."""
        count, first = self._shared.damaged
        if not count:
            return ""
        which = f"line {first} of {self.journal.path} is"
        if count > 1:
            which = f"{count} lines of {self.journal.path}, the first of them line {first}, are"
        return f"{which} damaged or not written by klarm, and ignored"

    def has_too_many_rollbacks(self) -> bool:
        """Count a rollback; return whether there were too many to be rollbacks of one run."""
        self._resumes += 1
        self._is_in_order = self._resumes <= _MAX_RESUMES
        return not self._is_in_order

    def keep(self, evaluator: Evaluator, timeline: Timeline, rows: int) -> None:
        """Take a snapshot of the current state, `rows` rows after the last one."""
        self._rows += rows
        end = self.journal.end
        if end is None or timeline.step is None or not self._is_in_order:
            return
        try:
            state = pack_state(evaluator.capture())
        except UnfitError:  # a detector written by the user, without get_state
            return
        snapshot = Snapshot(
            step=timeline.step,
            rows=self._keeper.rows + self._rows,
            offset=end,
            settings=evaluator.fingerprint,
            seen=list(timeline.seen.keys() & self._metrics),
            logged=timeline.logged(),
            active=evaluator.active,
            state=state,
        )
        self._keeper.take(snapshot, self._shared)
        if isinstance(self.journal, RecentJournal):
            self.journal.forget_before(self._keeper.oldest)

    def forget_from(self, step: int) -> None:
        """Discard the snapshots at or after a step: training was rolled back to it."""
        self._keeper.forget_from(step)

    def close(self, timeout: float) -> None:
        """Write the newest snapshot, and stop."""
        self._keeper.close(timeout)

    def before(self, step: int, kept: Rows | None, evaluator: Evaluator) -> Before | None:
        """Return what came before a step, from the trainer's record `kept` or from the journal.

        Returns None if there is neither. The evaluator is restored from a snapshot if possible.
        """
        snapshot: Snapshot | None = None
        if not self._is_current:
            self._read()
        self._is_current = False
        recorded = self.recorded
        known: Fold | RecentJournal | None = recorded
        if isinstance(self.journal, RecentJournal):
            known = self.journal
        last = known.last_step if known is not None else None
        first = known.first_step if known is not None and last is not None else None
        rows: Iterable[History]
        if kept is not None:
            rows = self._taken_over(kept, recorded)
            if isinstance(self.journal, RecentJournal):
                self.journal.forget_before(self.journal.end)  # the trainer's record replaces it
        elif self._stored is not None and recorded is not None:
            snapshot = self._restored(step, evaluator)
            after = None if snapshot is None else (snapshot.offset, snapshot.step, snapshot.seen)
            rows = history(self._stored, self._metrics, before=step, after=after)
        elif isinstance(self.journal, RecentJournal):
            snapshot = self._restored(step, evaluator, self.journal.begin)
            if snapshot is None and self.journal.begin:
                self._is_in_order = False
                return None
            after = None if snapshot is None else (0, snapshot.step, snapshot.seen)
            lines = self.journal.since(0 if snapshot is None else snapshot.offset)
            rows = history(lines, self._metrics, before=step, after=after)
        else:
            self._is_in_order = False
            return None
        incidents = [] if known is None else list(known.incidents.values())
        undone = (
            f"steps {step} to {last} are rolled back" if last is not None and last >= step else ""
        )
        if undone and kept is None and first is not None and step <= first:
            how = f"starts over: {undone}; a new run needs a new name"
        else:
            how = f"continues at step {step}{'; ' if undone else ''}{undone}"
        return Before(rows, incidents, bool(undone), how, snapshot)

    def _restored(self, step: int, evaluator: Evaluator, since: int = 0) -> Snapshot | None:
        """Restore the evaluator from the newest snapshot before a step; None if none fits."""
        reported = False
        for snapshot in self._keeper.before(step):
            if snapshot.offset < since:
                break
            try:
                if snapshot.settings != evaluator.fingerprint:
                    raise UnfitError("the settings or the version of klarm have changed")
                if snapshot.active != evaluator.active:
                    raise UnfitError("other detectors are active")
                evaluator.restore(unpack_state(snapshot.state))
            except UnfitError as error:
                if not reported:
                    self._keeper.report(f"of step {snapshot.step}", error)
                reported = True
            else:
                return snapshot
        return None

    def _read(self, *, complete: bool = True) -> None:
        """Read the current journal."""
        self._stored = self.journal.stored(complete=complete)
        if self._stored is None:
            self.recorded = None
            return
        fold = self._shared.fold
        if fold is None:
            fold = self._shared.fold = Fold(self._stored, self._note_damage)
            if (saved := self._keeper.newest_stored()) is not None:
                fold.restore(saved.fold)
                self._shared.damaged = saved.damaged, saved.first_damaged
        fold.update()
        self.recorded = fold

    def _note_damage(self, number: int, _: Damage) -> None:
        count, first = self._shared.damaged
        self._shared.damaged = count + 1, first or number

    def _taken_over(self, kept: Rows, recorded: Fold | None) -> Iterable[History]:
        """Return the trainer's record, with the commands, which only the journal has.

        If the journal does not have any step, the record is written to it.
        """
        if recorded is not None and not recorded.steps:
            for at, values in kept:
                self.journal.step(at, self._clock(), values)
        timeline = Timeline(self._metrics)
        rows = [(at, timeline.new_at(at, values)) for at, values in kept]
        return rows if self._stored is None else with_commands(rows, self._stored)
