"""The past of a run: what it logged before the step at which it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from klarm.journal import (
    Damage,
    Fold,
    IncidentRecord,
    Journal,
    LateRow,
    Row,
    Stored,
    surviving_rows,
    with_commands,
)
from klarm.metrics import METRICS
from klarm.monitor.steps import Timeline
from klarm.types import Command

# A log whose steps keep going back is not that of one run; its rows are then taken as they come.
_MAX_RESUMES = 100

Rows = Sequence[tuple[int, Mapping[str, float]]]


class Before(NamedTuple):
    """What counts of a run when it goes on at a step, and in words what becomes of the rest."""

    rows: Iterable[Row | LateRow | Command]  # to be read once
    told: Sequence[IncidentRecord]  # the incidents of the journal, as it tells them
    undone: bool  # whether there are rows that no longer count
    how: str


class Past:
    """Reads it from the run's journal, or takes over the record that the trainer has kept."""

    def __init__(self, journal: Journal | None, clock: Callable[[], float]) -> None:
        self._journal = journal
        self._clock = clock
        self._resumes = 0
        self._damaged = 0  # lines
        self._first_damaged = 0
        self._stored: Stored | None = None
        self._fold: Fold | None = None
        # What the journal amounts to, as of the last look; None if it does not hold the run.
        self.recorded: Fold | None = None
        self._read(complete=False)
        # Until this process has logged something, that is all there is.
        self._is_current = self.recorded is not None and self.recorded.steps > 0

    @property
    def damage(self) -> str:
        """What is wrong with the journal, for people; empty if nothing is."""
        if not self._damaged or self._journal is None:
            return ""
        first, count = self._first_damaged, self._damaged
        which = f"line {first} of {self._journal.path} is"
        if count > 1:
            which = f"{count} lines of {self._journal.path}, the first of them line {first}, are"
        return f"{which} damaged or not written by klarm, and ignored"

    def is_no_past(self) -> bool:
        """Count a step back; return whether there were too many for it to mean anything."""
        self._resumes += 1
        return self._resumes > _MAX_RESUMES

    def before(self, step: int, kept: Rows | None) -> Before | None:
        """Return what came before a step: what the trainer has kept, else the journal.

        None if there is neither.
        """
        if not self._is_current:
            self._read()
        self._is_current = False
        recorded = self.recorded
        last = recorded.last_step if recorded is not None else None
        first = recorded.first_step if recorded is not None and last is not None else None
        rows: Iterable[Row | LateRow | Command]
        if kept is not None:
            rows = self._taken_over(kept, recorded)
        elif self._stored is not None and recorded is not None:
            rows = surviving_rows(self._stored, METRICS.keys(), before=step)
        else:
            return None
        told = [] if recorded is None else list(recorded.incidents.values())
        undone = (
            f"steps {step} to {last} are rolled back" if last is not None and last >= step else ""
        )
        if undone and kept is None and first is not None and step <= first:
            how = f"starts over: {undone}; a new run needs a new name"
        else:
            how = f"goes on at step {step}{'; ' if undone else ''}{undone}"
        return Before(rows, told, bool(undone), how)

    def _read(self, *, complete: bool = True) -> None:
        """Take in what the journal holds by now."""
        self._stored = None if self._journal is None else self._journal.stored(complete=complete)
        if self._stored is None:
            self.recorded = None
            return
        if self._fold is None:
            self._fold = Fold(self._stored, self._note_damage)
        self._fold.update()
        self.recorded = self._fold

    def _note_damage(self, number: int, _: Damage) -> None:
        self._damaged += 1
        self._first_damaged = self._first_damaged or number

    def _taken_over(self, kept: Rows, recorded: Fold | None) -> Iterable[Row | LateRow | Command]:
        """Return the trainer's record and what people told the run, which only the journal has.

        A journal without any step takes the record in.
        """
        if self._journal is not None and recorded is not None and not recorded.steps:
            for at, values in kept:
                self._journal.step(at, self._clock(), values)
        timeline = Timeline()
        rows = [(at, timeline.new_at(at, values)) for at, values in kept]
        return rows if self._stored is None else with_commands(rows, self._stored)
