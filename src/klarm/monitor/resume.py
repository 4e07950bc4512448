"""The past of a run: what it logged before the step at which it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from klarm.journal import History, Journal
from klarm.metrics import METRICS
from klarm.monitor.steps import Timeline

# A log whose steps keep going back is not that of one run; its rows are then taken as they come.
_MOST_RESUMES = 100

Rows = Sequence[tuple[int, Mapping[str, float]]]


class Before(NamedTuple):
    """What counts of a run when it goes on at a step, and in words what becomes of the rest."""

    history: History
    how: str


class Past:
    """Reads it from the run's journal, or takes over the record that the trainer has kept."""

    def __init__(self, journal: Journal | None, clock: Callable[[], float]) -> None:
        self._journal = journal
        self._clock = clock
        self._resumes = 0
        # What an earlier process recorded, until the step is known at which this one goes on.
        self.earlier = self._recorded()

    @property
    def last_step(self) -> int | None:
        """The last step of an earlier process; None if there is none to go on from."""
        return self.earlier.rows[-1][0] if self.earlier is not None and self.earlier.rows else None

    def is_no_past(self) -> bool:
        """Count a step back; return whether there were too many for it to mean anything."""
        self._resumes += 1
        return self._resumes > _MOST_RESUMES

    def before(self, step: int, kept: Rows | None) -> Before | None:
        """Return what came before a step: what the trainer has kept, else the journal.

        None if there is neither.
        """
        recorded, self.earlier = self.earlier, None
        if recorded is None or not recorded.rows:
            recorded = self._recorded()
        if kept is not None:
            history = self._taken_over(kept, recorded)
        elif recorded is not None:
            history = recorded
        else:
            return None
        last = recorded.rows[-1][0] if recorded is not None and recorded.rows else step - 1
        undone = f"steps {step} to {last} are rolled back" if last >= step else ""
        if undone and kept is None and step <= history.rows[0][0]:
            how = f"starts over: {undone}; a new run needs a new name"
        else:
            how = f"goes on at step {step}{'; ' if undone else ''}{undone}"
        return Before(history, how)

    def _recorded(self) -> History | None:
        return None if self._journal is None else self._journal.history(METRICS.keys())

    def _taken_over(self, kept: Rows, recorded: History | None) -> History:
        """Return the trainer's record; a journal without any step takes it in."""
        if self._journal is not None and recorded is not None and not recorded.rows:
            for at, values in kept:
                self._journal.step(at, self._clock(), values)
        timeline = Timeline()
        new = [(at, timeline.new_at(at, values)) for at, values in kept]
        return History(new, recorded.events if recorded is not None else [], {})
