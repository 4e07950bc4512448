"""Finds the rows of a log that a journal already has."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path

from klarm.journal import Source, Step, read_journal
from klarm.metrics import Binding, to_number
from klarm.monitor import whole_step
from klarm.sources.row import LogRow

_CUT = 2**61 - 1  # sums of hashes are taken modulo this


class Recorded:
    """The steps of a followed log that are in its journal.

    For each step, its number and a sum over its values are kept, which takes 16 bytes. Several rows
    of one step count as one, because their number may depend on when they were read.
    """

    def __init__(self, journal: Path) -> None:
        self.path: Path | None = None  # of the log
        self.step_column: str | None = None  # None if unknown
        self.steps = array("q")
        self.sums = array("q")
        begins = True
        for record in read_journal(journal):
            if isinstance(record, Source):
                self.path, self.step_column = Path(record.path), record.step_column
                del self.steps[record.kept :], self.sums[record.kept :]
                begins = True
            elif isinstance(record, Step) and self.path is not None:
                step = record.step if record.late is None else record.late  # as the log has it
                if begins or self.steps[-1] != step:
                    self.steps.append(step)
                    self.sums.append(0)
                values = _sum(record.metrics) + _sum(record.repeats)
                self.sums[-1] = (self.sums[-1] + values) % _CUT
                begins = False


class PassingOver:
    """Takes the rows of a log from its beginning, and returns those that are not recorded.

    From the first row on that differs from the record, every row is new.
    """

    def __init__(self, binding: Binding, recorded: Recorded | None = None) -> None:
        self.binding = binding  # as in the monitor: the record has some values negated
        self._recorded = recorded
        self._rows: list[LogRow] = []  # of the current step
        self._sum = 0
        # The number of steps that the log and the record have in common.
        self.kept = 0
        # The step column of the record; None if unknown.
        self.step_column = None if recorded is None else recorded.step_column
        # Whether the log differs from the record, or nothing is recorded.
        self.differs = recorded is None or not recorded.steps
        self._done = self.differs

    def take(self, row: LogRow) -> list[LogRow]:
        """Return the rows to log now."""
        if self._done:
            return [row]
        step = whole_step(row.step)
        if self._rows and (step is None or step != whole_step(self._rows[-1].step)):
            if not self._is_recorded():
                return [*self._give_up(), row]
            self.kept += 1
            self._rows, self._sum = [], 0
            if self._recorded is None or self.kept == len(self._recorded.steps):
                self._done = True
                return [row]
        self._rows.append(row)
        self._sum = (self._sum + _sum(self.binding.read(row.metrics))) % _CUT
        return []

    def pause(self) -> list[LogRow]:
        """Return the remaining rows to log, because there are no more for now."""
        return self._give_up() if self._rows and not self._done and not self._is_recorded() else []

    def _is_recorded(self) -> bool:
        assert self._recorded is not None
        step = whole_step(self._rows[0].step)
        return self._recorded.sums[self.kept] == self._sum and (
            step is None or step == self._recorded.steps[self.kept]
        )

    def _give_up(self) -> list[LogRow]:
        self._done = self.differs = True
        return self._rows


def _sum(values: Mapping[str, object]) -> int:
    """Return a number that distinguishes the values of a step from those of others.

    >>> _sum({"kl": 0.5, "loss": "NaN"}) == _sum({"loss": float("nan"), "objective/kl": 0.5})
    True
    """
    numbers = [number for value in values.values() if (number := to_number(value)) is not None]
    # Every NaN object has a different hash.
    return sum(hash(number) if number == number else 1 for number in numbers) % _CUT  # noqa: PLR0124
