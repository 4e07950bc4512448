"""The fold: what a journal amounts to, read once and kept up to date as it grows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from klarm.journal.checksum import is_whole
from klarm.journal.incident import IncidentRecord, add_event
from klarm.journal.lines import OnDamage, Stored, Verifier, opened, pieces_between, whole_end
from klarm.journal.records import (
    Bound,
    Checkpoint,
    Finish,
    Record,
    Resume,
    Started,
    Step,
    decoded,
)
from klarm.journal.rollbacks import Limit
from klarm.journal.search import identified, steps_back
from klarm.journal.steps import AnyStep, decoded_steps
from klarm.metrics import Origin
from klarm.types import Command, Event

_STEP = b'{"type":"step","step":'
_SKIPPED = (b'{"type":"alert"', b'{"type":"blip"', b'{"type":"source"')


# Is given each record that counts and is no step, an event with its id, and the line it stands on.
OnRecord = Callable[[Record, bytes], None]
# Is given steps that count, as many as stand on lines behind each other.
OnSteps = Callable[[Sequence[AnyStep]], None]


class Rollback(NamedTuple):
    """Training went back to a step: from it up to the last one, steps no longer count."""

    step: int
    last: int


class SavedFold(msgspec.Struct, frozen=True):
    """A fold between two updates, to be stored and taken up by another process."""

    head: Started | None
    run: str
    began: float
    incidents: dict[str, IncidentRecord]
    checkpoints: list[tuple[int, str]]
    rollbacks: list[Rollback]
    origins: dict[str, Origin]
    first_step: int | None
    last_step: int | None
    steps: int
    rolled_back: int
    commands: set[str]
    finished: bool
    read_to: int
    lines: int
    sealed: bool
    in_order: bool


class Fold:
    """Incidents, checkpoints, rollbacks and the number of steps of a journal.

    It holds no rows, so a run of any length fits in memory; `surviving_rows` has those. What a
    rollback undoes no longer counts; `rollbacks` says what that is.
    """

    def __init__(
        self,
        journal: Stored,
        on_damage: OnDamage | None = None,
        on_record: OnRecord | None = None,
        on_steps: OnSteps | None = None,
    ) -> None:
        """Prepare to read a journal. `on_damage` is given each line that does not count, and why.

        `on_steps` and `on_record` are given all that do, in order. The first `update` reads what
        there is.
        """
        self.head: Started | None = None  # the first run line that can be read
        self.run = journal.absolute().parent.name if isinstance(journal, Path) else ""
        self.began = 0.0
        self.incidents: dict[str, IncidentRecord] = {}  # by id, in the order in which they opened
        self.checkpoints: list[tuple[int, str]] = []  # that count
        self.rollbacks: list[Rollback] = []
        self.origins: dict[str, Origin] = {}  # of metrics whose key is not plain from the name
        self.first_step: int | None = None  # that counts
        self.last_step: int | None = None
        self.steps = 0  # that count
        self.rolled_back = 0  # steps that do not
        self.commands: set[str] = set()  # keys of those that the run has applied
        self.finished = False  # whether the last process said that it ended
        self.read_to = 0  # bytes
        self._journal = journal
        self._verifier = Verifier(on_damage)
        self._on_record, self._on_steps = on_record, on_steps
        self._in_order = True  # no step is lower than the one before without a resume line

    def update(self, at_most: int | None = None) -> list[Event]:
        """Take in what was appended since the last call; return the new events.

        An incomplete batch at the end is left for the next call, and so is what lies behind about
        so many bytes, if a limit is given.
        """
        new: list[Event] = []
        with opened(self._journal) as file:
            stop = inf if at_most is None else self.read_to + at_most
            for begin, lines in pieces_between(file, self.read_to, whole_end(file)):
                self._add_lines(lines, begin, file, new)
                if self.read_to >= stop:
                    break
        return new

    def update_slowly(self, end: int, size: int) -> Iterator[None]:
        """Take in what was appended up to the end of a batch, about so many bytes at a time.

        It may be taken in from elsewhere, too, while whoever calls this has a rest.
        """
        with opened(self._journal) as file:
            while self.read_to < end:
                begin, lines = next(pieces_between(file, self.read_to, end, size), (end, []))
                if not lines and begin == end:
                    return  # the file is shorter than that
                self._add_lines(lines, begin, file, [])
                if not lines:  # not even one fits
                    size *= 2
                yield

    def saved(self) -> SavedFold:
        """Return what another fold of the same journal can go on from."""
        return SavedFold(
            self.head,
            self.run,
            self.began,
            self.incidents,
            self.checkpoints,
            self.rollbacks,
            self.origins,
            self.first_step,
            self.last_step,
            self.steps,
            self.rolled_back,
            self.commands,
            self.finished,
            self.read_to,
            self._verifier.number,
            self._verifier.sealed,
            self._in_order,
        )

    def restore(self, saved: SavedFold) -> None:
        """Go on from what a fold of the same journal had read. It takes over what it is given."""
        self.head, self.run, self.began = saved.head, saved.run, saved.began
        self.incidents, self.checkpoints = saved.incidents, saved.checkpoints
        self.rollbacks, self.origins = saved.rollbacks, saved.origins
        self.first_step, self.last_step = saved.first_step, saved.last_step
        self.steps, self.rolled_back = saved.steps, saved.rolled_back
        self.commands, self.finished = saved.commands, saved.finished
        self.read_to, self._in_order = saved.read_to, saved.in_order
        self._verifier.number, self._verifier.sealed = saved.lines, saved.sealed

    def _add_lines(self, lines: list[bytes], begin: int, file: IO[bytes], new: list[Event]) -> None:
        """Take in lines of which the first begins at an offset."""
        wants_steps, passes = self._on_steps is not None, self._verifier.passes
        counts_steps = not wants_steps and self._on_record is None
        steps: list[bytes] = []  # that are to be handed on
        at = 0
        while at < len(lines):
            if counts_steps and (counted := self._count_steps(lines, at)):
                begin += sum(map(len, lines[at : at + counted])) + counted
                at += counted
                continue
            line = lines[at]
            if passes(line):
                if wants_steps and line.startswith(_STEP):
                    steps.append(line)
                else:
                    if steps:
                        self._hand_on_steps(steps)
                    self._add_line(line, begin, file, new)
            begin += len(line) + 1
            at += 1
        if steps:
            self._hand_on_steps(steps)
        self.read_to = begin

    def _count_steps(self, lines: list[bytes], at: int) -> int:
        """Take in the step lines that follow each other from there on; return how many.

        Nearly all lines of a long run are such. None that needs a closer look is taken in.
        """
        last, in_order, count = self.last_step, True, 0
        steps, digits = 0, len(_STEP)
        for line in itertools.islice(lines, at, None):
            if not line.startswith(_STEP) or not is_whole(line):
                break
            number = line[digits : line.find(b",", digits)]
            if not number.isdigit():
                break
            step = int(number)
            if step != last:
                if last is None:
                    self.first_step = step
                elif step < last:
                    in_order = False
                steps += 1
                last = step
            count += 1
        if count:
            self.last_step, self.finished = last, False
            self.steps += steps
            self._in_order &= in_order
            self._verifier.skip(count)
        return count

    def _hand_on_steps(self, lines: list[bytes]) -> None:
        """Take in steps that somebody else wants as well."""
        steps = decoded_steps(lines)
        lines.clear()
        for step in steps:
            self._add_step(step.step)
        if steps and self._on_steps is not None:
            self._on_steps(steps)

    def _add_line(self, line: bytes, begin: int, file: IO[bytes], new: list[Event]) -> None:
        if self._on_record is None and line.startswith(_SKIPPED):
            return
        record = decoded(line)
        if record is None:
            return
        if isinstance(record, Event):
            record = identified(record, self.began)
        self._add(record, begin, file, new)
        if isinstance(record, Step) and self._on_steps is not None:  # klarm spells it otherwise
            self._on_steps([record])
        elif self._on_record is not None:
            self._on_record(record, line)

    def _add(self, record: Record, begin: int, file: IO[bytes], new: list[Event]) -> None:
        if isinstance(record, Event):
            add_event(self.incidents, record)
            new.append(record)
        elif isinstance(record, Step):
            self._add_step(record.step)
        elif isinstance(record, Resume):
            self._go_back(record, begin, file)
        elif isinstance(record, Started):
            self._begin(record)
        elif isinstance(record, Checkpoint):
            self.checkpoints.append((record.step, record.path))
        elif isinstance(record, Bound):
            self.origins.update(record.origins())
        elif isinstance(record, Command):
            self._add_command(record)
        elif isinstance(record, Finish):
            self.finished = True

    def _begin(self, record: Started) -> None:
        self.finished = False
        if self.head is None:
            self.head, self.began = record, record.started
            if self._verifier.number == 1:
                self.run = record.run

    def _add_step(self, step: int) -> None:
        if step != self.last_step:
            if self.last_step is None:
                self.first_step = step
            elif step < self.last_step:
                self._in_order = False
            self.steps += 1
            self.last_step = step
        self.finished = False

    def _add_command(self, command: Command) -> None:
        self.commands.add(command.key)
        known = self.incidents.get(command.incident)
        if command.command == "ack" and known and command.by not in known.acknowledged_by:
            known.acknowledged_by.append(command.by)

    def _go_back(self, resume: Resume, begin: int, file: IO[bytes]) -> None:
        limit = Limit(resume.step)
        self.checkpoints = [saved for saved in self.checkpoints if limit.keeps_checkpoint(saved[0])]
        if self.last_step is None or (self._in_order and limit.keeps_step(self.last_step)):
            return
        undone = 0
        survivor: int | None = None
        later: int | None = None
        for step in steps_back(file, begin):
            if limit.keeps_step(step.step):
                survivor = step.step if survivor is None else survivor
                if self._in_order:
                    break
            elif step.step != later:
                undone += 1
            later = step.step
        self.rollbacks.append(Rollback(resume.step, self.last_step))
        self.rolled_back += undone
        self.steps -= undone
        self.last_step = survivor
