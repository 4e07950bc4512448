"""The fold: a summary of a journal, read once and kept up to date as the journal grows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import inf
from operator import lt
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from klarm.journal.checksum import count_whole
from klarm.journal.incident import IncidentRecord, acknowledged_after, add_event
from klarm.journal.lines import OnDamage, Stored, Verifier, chunks_between, opened, whole_end
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


# Called with each valid record other than a step, and its line. Events have an id.
OnRecord = Callable[[Record, bytes], None]
# Called with the valid steps of consecutive lines.
OnSteps = Callable[[Sequence[AnyStep]], None]


class Rollback(NamedTuple):
    """Training went back to `step`: the steps from there to `last` are rolled back."""

    step: int
    last: int


class SavedFold(msgspec.Struct, frozen=True):
    """The state of a fold between two updates, which another process can load and continue."""

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
    outcome: str = ""
    detectors: set[str] = set()  # msgspec copies it


class Fold:
    """Incidents, checkpoints, rollbacks and the number of steps of a journal.

    A fold holds no rows, so a run of any length fits in memory; `surviving_rows` yields the rows.
    Steps and checkpoints that were rolled back are not included; `rollbacks` lists which steps.
    """

    def __init__(
        self,
        journal: Stored,
        on_damage: OnDamage | None = None,
        on_record: OnRecord | None = None,
        on_steps: OnSteps | None = None,
    ) -> None:
        """Prepare to read a journal. The first `update` reads what has been written so far.

        `on_damage` is called with the number of each line that is ignored, and why. `on_steps` and
        `on_record` are called with the contents of all other lines, in order.
        """
        self.head: Started | None = None  # the first readable run line
        self.run = journal.absolute().parent.name if isinstance(journal, Path) else ""
        self.began = 0.0
        self.incidents: dict[str, IncidentRecord] = {}  # by id, in the order in which they opened
        self.checkpoints: list[tuple[int, str]] = []  # without those rolled back
        self.rollbacks: list[Rollback] = []
        self.origins: dict[str, Origin] = {}  # of metrics whose key differs from their name
        self.first_step: int | None = None
        self.last_step: int | None = None  # that was not rolled back
        self.steps = 0  # how many there are, without those rolled back
        self.rolled_back = 0  # how many steps were rolled back
        self.commands: set[str] = set()  # the keys of the commands that the run has applied
        self.finished = False  # whether the last process recorded that it finished
        # How the last process that logged a step ended; empty if training ended by itself.
        self.outcome = ""
        self.detectors: set[str] = set()  # the names of detectors that any process had enabled
        self.read_to = 0  # the offset up to which the journal was read
        self._journal = journal
        self._verifier = Verifier(on_damage)
        self._on_record, self._on_steps = on_record, on_steps
        self._in_order = True  # every lower step so far followed a resume line

    def update(self, at_most: int | None = None) -> list[Event]:
        """Read what was appended since the last call; return the new events.

        An incomplete batch at the end is left for the next call. If `at_most` is given, reading
        stops after about that many bytes.
        """
        new: list[Event] = []
        with opened(self._journal) as file:
            stop = inf if at_most is None else self.read_to + at_most
            for begin, lines in chunks_between(file, self.read_to, whole_end(file)):
                self._add_lines(lines, begin, file, new)
                if self.read_to >= stop:
                    break
        return new

    def update_slowly(self, end: int, size: int) -> Iterator[None]:
        """Read up to an offset where a batch ends, about `size` bytes at a time.

        The caller may pause between chunks, and another thread may call `update` meanwhile.
        """
        with opened(self._journal) as file:
            while self.read_to < end:
                begin, lines = next(chunks_between(file, self.read_to, end, size), (end, []))
                if not lines and begin == end:
                    return  # the file is shorter than `end`
                self._add_lines(lines, begin, file, [])
                if not lines:  # a single line is longer than `size`
                    size *= 2
                del lines  # before the next ones are read
                yield

    def saved(self) -> SavedFold:
        """Return the state from which another fold of the same journal can continue."""
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
            self.outcome,
            self.detectors,
        )

    def restore(self, saved: SavedFold) -> None:
        """Continue from the state of another fold of the same journal, which is not copied."""
        self.head, self.run, self.began = saved.head, saved.run, saved.began
        self.incidents, self.checkpoints = saved.incidents, saved.checkpoints
        self.rollbacks, self.origins = saved.rollbacks, saved.origins
        self.first_step, self.last_step = saved.first_step, saved.last_step
        self.steps, self.rolled_back = saved.steps, saved.rolled_back
        self.commands, self.finished = saved.commands, saved.finished
        self.outcome, self.detectors = saved.outcome, saved.detectors
        self.read_to, self._in_order = saved.read_to, saved.in_order
        self._verifier.number, self._verifier.sealed = saved.lines, saved.sealed

    def _add_lines(self, lines: list[bytes], begin: int, file: IO[bytes], new: list[Event]) -> None:
        """Process lines; the first one begins at the offset `begin`."""
        wants_steps, wants_records = self._on_steps is not None, self._on_record is not None
        steps: list[bytes] = []  # lines to pass to `on_steps`
        at = 0
        while at < len(lines):
            if (wants_steps or not wants_records) and (count := self._skip_steps(lines, at)):
                ahead = lines[at : at + count]
                if wants_steps:
                    steps += ahead
                else:
                    self._count_steps(ahead)
                begin += sum(map(len, ahead)) + count
                at += count
                continue
            line = lines[at]
            if self._verifier.passes(line):
                if wants_steps and line.startswith(_STEP):
                    steps.append(line)
                else:
                    if steps:
                        self._pass_on_steps(steps)
                    self._add_line(line, begin, file, new)
            begin += len(line) + 1
            at += 1
        if steps:
            self._pass_on_steps(steps)
        self.read_to = begin

    def _skip_steps(self, lines: list[bytes], at: int) -> int:
        """Skip the valid step lines from index `at` on; return how many there are.

        This is the fast path for nearly all lines of a long run. It stops before the first line
        that needs a closer look.
        """
        count = count_whole(itertools.islice(lines, at, None), _STEP)
        if count:
            self._verifier.skip(count)
        return count

    def _count_steps(self, lines: list[bytes]) -> None:
        """Process step lines, without decoding those that klarm formatted."""
        digits = len(_STEP)
        for line in lines:
            number = line[digits : line.find(b",", digits)]
            if number.isdigit():
                self._add_step(int(number))
            elif isinstance(record := decoded(line), Step):
                self._add_step(record.step)

    def _pass_on_steps(self, lines: list[bytes]) -> None:
        """Process step lines and pass the decoded steps to `on_steps`."""
        steps = decoded_steps(lines)
        lines.clear()
        self._add_steps([step.step for step in steps])
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
        if isinstance(record, Step) and self._on_steps is not None:  # not formatted by klarm
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
            self._roll_back(record, begin, file)
        elif isinstance(record, Started):
            self._begin(record)
        elif isinstance(record, Checkpoint):
            # A checkpoint that was overwritten holds only the state of the later step.
            earlier = [saved for saved in self.checkpoints if saved[1] != record.path]
            self.checkpoints = [*earlier, (record.step, record.path)]
        elif isinstance(record, Bound):
            self.origins.update(record.origins())
        elif isinstance(record, Command):
            self._add_command(record)
        elif isinstance(record, Finish):
            self.finished = True
            if record.steps or record.outcome:  # otherwise `klarm close` wrote it, without training
                self.outcome = record.outcome

    def _begin(self, record: Started) -> None:
        self.finished = False
        self.detectors |= {
            name
            for name, section in record.config.items()
            if isinstance(section, dict) and section.get("enabled") is True
        }
        if self.head is None:
            self.head, self.began = record, record.started
            if self._verifier.number == 1:
                self.run = record.run

    def _add_steps(self, steps: list[int]) -> None:
        """Count steps: all at once if each one is higher than the one before, as is usual."""
        if not steps:
            return
        self._add_step(steps[0])
        if all(map(lt, steps, steps[1:])):
            self.steps, self.last_step = self.steps + len(steps) - 1, steps[-1]
        else:
            for step in steps[1:]:
                self._add_step(step)

    def _add_step(self, step: int) -> None:
        if step != self.last_step:
            if self.last_step is None:
                self.first_step = step
            elif step < self.last_step:
                self._in_order = False
            self.steps += 1
            self.last_step = step
        self.finished, self.outcome = False, ""

    def _add_command(self, command: Command) -> None:
        self.commands.add(command.key)
        known = self.incidents.get(command.incident)
        if known is not None:
            known.acknowledged_by = acknowledged_after(command, known.acknowledged_by)

    def _roll_back(self, resume: Resume, begin: int, file: IO[bytes]) -> None:
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
