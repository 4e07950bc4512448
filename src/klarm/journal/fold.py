"""The fold: a summary of a journal, read once and kept up to date as the journal grows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import IO

import msgspec

from klarm.journal.checksum import count_whole
from klarm.journal.incident import IncidentRecord
from klarm.journal.lines import OnDamage, Stored, Verifier, chunks_between, opened, whole_end
from klarm.journal.records import Record, Started, Step, decoded
from klarm.journal.steps import AnyStep, decoded_steps
from klarm.journal.totals import Rollback, Totals
from klarm.metrics import Origin
from klarm.speech import learn_all
from klarm.types import Event

_STEP = b'{"type":"step","step":'
_SKIPPED = (b'{"type":"alert"', b'{"type":"blip"', b'{"type":"source"')


# Called with each valid record other than a step, and the offsets where its line begins and ends.
OnRecord = Callable[[Record, int, int], None]
# Called with the valid steps of consecutive lines.
OnSteps = Callable[[Sequence[AnyStep]], None]


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
    hidden: int
    in_order: bool
    outcome: str = ""
    detectors: set[str] = set()  # msgspec copies it


class Fold(Totals):
    """Reads a journal into totals: incidents, checkpoints, rollbacks and the number of steps.

    A fold holds no rows, so a run of any length fits in memory; `history` yields the rows.
    Steps and checkpoints that were rolled back are not included; `rollbacks` lists which steps.
    """

    def __init__(
        self,
        journal: Stored,
        on_damage: OnDamage | None = None,
        on_record: OnRecord | None = None,
        on_steps: OnSteps | None = None,
        *,
        run: str = "",
    ) -> None:
        """Prepare to read a journal. The first `update` reads what has been written so far.

        `on_damage` is called with the number of each line that is ignored, and why. `on_steps` and
        `on_record` are called with the contents of all other lines, in order. `run` is the name of
        the run if its journal does not say.
        """
        if not run and isinstance(journal, Path):
            run = journal.absolute().parent.name
        super().__init__(run)
        self.read_to = 0  # the offset up to which the journal was read
        self._journal = journal
        self._verifier = Verifier(on_damage)
        self._on_record, self._on_steps = on_record, on_steps

    @property
    def hidden_events(self) -> int:
        """How many events the damaged lines so far may hide, at most."""
        return self._verifier.hidden

    def update(self, at_most: int | None = None, until: int | None = None) -> list[Event]:
        """Read what was appended since the last call; return the new events.

        An incomplete batch at the end is left for the next call. If `at_most` is given, reading
        stops after about that many bytes; if `until` is, at that offset, where a batch ended.
        """
        new: list[Event] = []
        with opened(self._journal) as file:
            stop = inf if at_most is None else self.read_to + at_most
            whole = whole_end(file) if until is None else until
            for begin, lines, end in chunks_between(file, self.read_to, whole):
                self._add_lines(lines, begin, file, new)
                self.read_to = end
                if self.read_to >= stop:
                    break
        return new

    def update_slowly(self, end: int, size: int) -> Iterator[None]:
        """Read up to an offset where a batch ends, about `size` bytes at a time.

        The caller may pause between chunks, and another thread may call `update` meanwhile.
        """
        with opened(self._journal) as file:
            while self.read_to < end:
                nothing: tuple[int, list[bytes], int] = (end, [], end)
                chunks = chunks_between(file, self.read_to, end, size)
                begin, lines, read_to = next(chunks, nothing)
                if not lines and begin == end:
                    return  # the file is shorter than `end`
                self._add_lines(lines, begin, file, [])
                self.read_to = read_to
                if not lines:  # a single line is longer than `size`
                    size *= 2
                del lines  # before the next ones are read
                yield

    @property
    def lines(self) -> int:
        """The number of the line that was read last."""
        return self._verifier.number

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
            self._verifier.hidden,
            self._in_order,
            self.outcome,
            self.detectors,
        )

    def restore(self, saved: SavedFold) -> None:
        """Continue from the state of another fold of the same journal, which is not copied."""
        self.head, self.run, self.began = saved.head, saved.run, saved.began
        learn_all({} if saved.head is None else saved.head.sentences)
        self.incidents, self.checkpoints = saved.incidents, saved.checkpoints
        self.rollbacks, self.origins = saved.rollbacks, saved.origins
        self.first_step, self.last_step = saved.first_step, saved.last_step
        self.steps, self.rolled_back = saved.steps, saved.rolled_back
        self.commands, self.finished = saved.commands, saved.finished
        self.outcome, self.detectors = saved.outcome, saved.detectors
        self.read_to, self._in_order = saved.read_to, saved.in_order
        self._verifier.number, self._verifier.hidden = saved.lines, saved.hidden

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
            new.append(record)
        self._add(record, self._verifier.number, begin, file)
        if isinstance(record, Step) and self._on_steps is not None:  # not formatted by klarm
            self._on_steps([record])
        elif self._on_record is not None:
            self._on_record(record, begin, begin + len(line) + 1)
